import type { JsonValue } from '@pawl/core'
import fc from 'fast-check'
import { type FaultName, FAULTS } from '../../../packages/crash-kit/src/faults/faults.js'
import type { Fault } from '../../../packages/crash-kit/src/faults/fault.js'
import type { Role } from '../../../packages/crash-kit/src/races/stepped-actor.js'
import { type Schedule, schedules } from '../../../packages/crash-kit/src/races/schedule.js'
import { type PipelinePlan, pipelinePlan } from '../pipelines/pipeline-plan.js'
import { jsonValue } from '../support/json.js'

/** A fault that strikes at a place where it can, after so many others have been passed. */
interface PlannedStrike {
  readonly fault: string
  readonly after: number
}

/** What happens to the request: faults, one after the other, or a race of several actors for its key. */
export type Disturbance =
  | { readonly by: 'faults'; readonly strikes: readonly PlannedStrike[] }
  | { readonly by: 'race'; readonly roles: readonly Role[]; readonly schedule: Schedule }

/** A random pipeline, a request for it, and what happens to it. */
export interface SurvivalCase {
  readonly plan: PipelinePlan
  readonly input: JsonValue
  /** How statements are sent. Nothing that happens may depend on it. */
  readonly sending: {
    readonly pipelining: boolean
    readonly preparedStatements: boolean
    readonly preparedQueries: boolean
  }
  readonly disturbance: Disturbance
}

/** There is a recovery between each two, so a case costs less per fault the more of them it has. */
const MOST_STRIKES = 10

/** A pipeline of eight phases passes about a hundred positions, and most pipelines have fewer phases. */
const MOST_PASSED = 80
const MOSTLY_PASSED = 8

/** Faults that strike at calls, boundaries or advances only, of which there are few. */
const MOST_PASSED_OF_FEW = 2

/** Faults that can strike in many places. */
const MANY: readonly FaultName[] = [
  'crash',
  'throw',
  'connectionKilled',
  'readOnlyFailover',
  'freeze',
  'disconnect',
]
const FEW: readonly FaultName[] = [
  'lostCommitAck',
  'lostCommit',
  'serializationFailure',
  'provider429',
  'provider5xx',
  'providerMalformed',
  'providerDisconnect',
  'leaseExpiry',
  'clockSkew',
  'databaseClock',
  'tableLock',
  'serverCrash',
  'reaper',
  'erasure',
  'otherVersion',
]

/** They wait for a time-out of a third of a second, or for the second after which PostgreSQL looks for deadlocks. */
const SLOW: readonly FaultName[] = ['statementTimeout', 'providerTimeout']

/** A few of many: a failover has a form for each number of commits that can be lost. */
const LOSSES = ['failover.1', 'failover.2', 'failover.all', 'failover.crash.1', 'failover.crash.all']

const ids = (names: readonly FaultName[]) =>
  names.flatMap((name) => (FAULTS[name] as readonly Fault[]).map(({ id }) => id))

const many = fc.oneof({ weight: 3, arbitrary: fc.nat({ max: MOSTLY_PASSED }) }, fc.nat({ max: MOST_PASSED }))

const strike: fc.Arbitrary<PlannedStrike> = fc.oneof(
  {
    weight: 20,
    arbitrary: fc.record({ fault: fc.constantFrom(...ids(MANY)), after: many }),
  },
  {
    weight: 20,
    arbitrary: fc.record({
      fault: fc.constantFrom(...ids(FEW), ...LOSSES),
      after: fc.nat({ max: MOST_PASSED_OF_FEW }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      fault: fc.constantFrom(...ids(SLOW)),
      after: fc.nat({ max: MOST_PASSED_OF_FEW }),
    }),
  },
)

const ROLES: readonly Role[] = ['client', 'duplicate', 'completer', 'zombie']

const disturbance: fc.Arbitrary<Disturbance> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      by: fc.constant('faults' as const),
      strikes: fc.array(strike, { minLength: 1, maxLength: MOST_STRIKES, size: 'max' }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      by: fc.constant('race' as const),
      roles: fc.constant(ROLES),
      schedule: schedules(ROLES.length),
    }),
  },
)

export const survivalCase: fc.Arbitrary<SurvivalCase> = fc.record({
  plan: pipelinePlan,
  input: jsonValue,
  sending: fc.record({
    pipelining: fc.oneof({ weight: 2, arbitrary: fc.constant(true) }, fc.constant(false)),
    preparedStatements: fc.boolean(),
    preparedQueries: fc.boolean(),
  }),
  disturbance,
})
