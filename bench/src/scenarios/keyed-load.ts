import { randomUUID } from 'node:crypto'
import { CREATED } from '../business.js'
import type { LoadPlan } from '../run/load.js'

/** Fresh keys in a closed loop: what most scenarios send. */
export function freshLoad(clients: number, leadInMs: number, windowMs: number): LoadPlan {
  return { clients, leadInMs, windowMs, measure: 'window', keys: null, expectedStatus: CREATED }
}

export const newKeys = (count: number): string[] => Array.from({ length: count }, () => randomUUID())
