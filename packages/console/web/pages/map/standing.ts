import type { PipelineFlow } from '@pawl/core'
import type { AsJson } from '../../../src/api.js'
import type { Condition } from '../../format/condition.js'

export type PipelineNow = AsJson<PipelineFlow>
export type PointNow = PipelineNow['points'][number]

/** The conditions in which a key can stand at a point. */
export const STANDING = ['held', 'backing_off', 'unattended', 'stuck'] as const satisfies readonly Condition[]
export type Standing = (typeof STANDING)[number]

export function countOf({ held, backingOff, unattended, stuck }: PointNow, condition: Standing): number {
  switch (condition) {
    case 'held':
      return held
    case 'backing_off':
      return backingOff
    case 'unattended':
      return unattended
    case 'stuck':
      return stuck
  }
}

export function standingAt(point: PointNow): number {
  return STANDING.reduce((sum, condition) => sum + countOf(point, condition), 0)
}

/** What the list of requests filters by. It does not tell held keys from those that rest. */
export function statusOf(condition: Standing): 'running' | 'unattended' | 'stuck' {
  return condition === 'held' || condition === 'backing_off' ? 'running' : condition
}
