import { type EngineOptions, type Outcome, respond, retryLater } from '@pawl/core'
import { createProbedEngine } from '@pawl/core/internal'
import { onTestFinished } from 'vitest'
import { type Database, pipeline } from './rides.js'
import type { TestDatabase } from './test-database.js'

export const HOUR_MS = 3_600_000

/** One that ends, one that never does, and one that begins with a call. */
export const note = pipeline<null>({ name: 'note', version: 1 }).finish(() => respond(204))
export const waits = pipeline<null>({ name: 'waits', version: 1 }).finish(() => retryLater())
export const calls = pipeline<null>({ name: 'calls', version: 1 })
  .foreign('called', { call: () => Promise.resolve(null) })
  .finish(() => respond(204))

/** An engine, and the statements that its reservations have sent. */
export function limitedEngine(database: TestDatabase, options: Partial<EngineOptions<Database>> = {}) {
  const steps: string[] = []
  const engine = createProbedEngine<Database>(
    { pool: database.pool(), pipelines: [note, waits, calls], schema: database.schema, ...options },
    ({ phase, step, when }) => {
      if (phase === 'reserve' && when === 'before') steps.push(step)
      return undefined
    },
  )
  onTestFinished(() => engine.close())
  return { engine, steps }
}

export const requestOf = (key: string, scope = 's') => ({ scope, key, input: null })

export const keysOf = (count: number, prefix = 'k') =>
  Array.from({ length: count }, (_, n) => `${prefix}${n}`)

export const countOf = (outcomes: readonly Outcome[], type: Outcome['type']) =>
  outcomes.filter((outcome) => outcome.type === type).length
