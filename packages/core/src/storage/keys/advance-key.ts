import type { Bound } from '../../driver/outgoing.js'
import { ADVANCED, AS_LEFT, type Carrying, epochAfter, intentAfter, intentIs } from './advanced.js'
import { calling } from './calling.js'
import { heldOrFail } from './held-or-fail.js'
import { heldBy, type Hold, WRITTEN } from './hold.js'
import { trailJson, type TrailEntry } from './trail.js'
import { defineStatement, msInterval, NOW } from '../statement.js'
import { sealJson } from '../sealed-values.js'
import type { Tables } from '../tables.js'

/** `intent`: what becomes of what is known of a call. */
const advance = (keys: string, intent: string): string => `
  UPDATE ${keys} AS k
     SET recovery_point = $6, state = coalesce($7::json, k.state), trail = $8::json, lease_until = ${NOW} + ${msInterval('$9')},
         attempts = 0, retries = 0, run_after = NULL,${intent}, last_error = NULL,
         updated_at = ${NOW}, ${WRITTEN}
   WHERE ${AS_LEFT} AND ${intentIs('$10', '$11')}
  RETURNING ${ADVANCED}`

const advanceStatement = defineStatement('advance_key', ({ keys }) =>
  heldOrFail(advance(keys, intentAfter('$11'))),
)

/** The same, and the call of the next phase is declared in the same write. */
const advanceAndDeclareStatement = defineStatement('advance_key', (tables) =>
  heldOrFail(
    `${advance(tables.keys, ` intent = ${calling(tables, '$12', '$13')}, ${epochAfter('$11')}`)}, k.intent::text AS declared`,
    'max(declared) AS declared',
  ),
)

/** A call that is about to be made, and must not be made twice unasked. */
export interface Declaration {
  readonly phase: string
  readonly timeoutMs: number
}

/** Where a key is moved to. */
export interface Advance extends Carrying {
  readonly point: string
  /** Null leaves it unchanged. */
  readonly stateJson: string | null
  readonly trail: readonly TrailEntry[]
  readonly leaseMs: number
  /** The phase that the transaction begins with. If it is a foreign one, this settles its call. */
  readonly firstPhase: string
  /** The call that follows, if it has to be declared. */
  readonly declares: Declaration | null
}

/** Moves the key to a later recovery point, inside the transaction of the phases before it and as its last statement. */
export function advanceKey(tables: Tables, hold: Hold, to: Advance): Bound {
  const values = [
    ...heldBy(hold),
    hold.recoveryPoint,
    to.point,
    to.stateJson === null ? null : sealJson(tables, hold, 'state', to.stateJson),
    trailJson(to.trail),
    to.leaseMs,
    to.firstPhase,
    to.carriedCallOf,
  ]
  const { declares } = to
  return declares === null
    ? advanceStatement.bind(tables, values)
    : advanceAndDeclareStatement.bind(tables, [...values, declares.phase, declares.timeoutMs])
}
