import type { StoredResponse } from '../pipeline/directive.js'
import type { PawlError } from '../errors.js'
import { encodeJson } from '../pipeline/json-value.js'
import type { StuckReason } from '../pipeline/outcome.js'
import type { StateObject } from '../pipeline/phase.js'
import { phaseAfter } from '../pipeline/phase-order.js'
import type { PipelineDefinition, UpgradeFrom } from '../pipeline/pipeline.js'
import { type Registry, upgradePoint } from '../pipeline/registry.js'
import type { ResolvedSettings } from '../pipeline/resolved-settings.js'
import type { KeyKind, KeyRow } from '../storage/keys/key-row.js'
import { disarmPromise } from '../disarm-promise.js'
import { safeError } from '../safe-error.js'
import { asItStands, type Continuation, decideUnfinished } from './decide-unfinished.js'
import { type ComparedRequest, isKnownVersion, unknownVersion } from './request-fingerprint.js'

/** A caller that asks for a key that somebody has already reserved. */
export interface Asking {
  /** Random identity of this attempt to get the key. */
  readonly holder: string
  /** What the request is; null when the key is asked for by its id, to recover it. */
  readonly request: {
    readonly pipeline: string
    readonly kind: KeyKind
    readonly fingerprint: ComparedRequest
  } | null
  /** Only once the key's back-off is over: for a caller that found it a while ago. */
  readonly onlyDue: boolean
}

export type Decision =
  | { readonly type: 'mismatch'; readonly differs: 'request' | 'pipeline' }
  | { readonly type: 'replay'; readonly response: StoredResponse; readonly expiresMs: number }
  | { readonly type: 'stuck'; readonly reason: StuckReason }
  | { readonly type: 'refuse'; readonly detail: string }
  /** We hold it already: the answer to our grant was lost on the way. */
  | { readonly type: 'ours'; readonly definition: PipelineDefinition }
  | { readonly type: 'in_flight'; readonly leaseLeftMs: number }
  | { readonly type: 'mark_stuck'; readonly definition: PipelineDefinition; readonly reason: StuckReason }
  | { readonly type: 'take_over'; readonly definition: PipelineDefinition; readonly at: Continuation }

/** Decides what may be done with a reserved key. Pure: the row says everything, and its `nowMs` is the database's clock. */
export function decideReservation(
  row: KeyRow,
  asking: Asking,
  registry: Registry,
  settings: ResolvedSettings,
): Decision {
  const { request } = asking
  if (request !== null && (row.pipeline !== request.pipeline || row.kind !== request.kind)) {
    return { type: 'mismatch', differs: 'pipeline' }
  }
  // If the two cannot be compared, nothing may be replayed: the response could be the answer to another request.
  const compared = request === null ? null : request.fingerprint.compare(row)
  if (compared?.type === 'other') return { type: 'mismatch', differs: 'request' }
  if (compared?.type === 'unknown') return { type: 'refuse', detail: compared.detail }
  if (!isKnownVersion(row)) return { type: 'refuse', detail: unknownVersion(row).detail }
  if (row.sealed !== null && row.status === 'finished') return refuseSealed(row.sealed)
  if (row.response !== null)
    return { type: 'replay', response: row.response, expiresMs: row.expiresMs ?? row.nowMs }
  if (row.stuckReason !== null) return { type: 'stuck', reason: row.stuckReason }

  if (request === null && row.kind === 'atomic') {
    return { type: 'refuse', detail: 'only a request of its client can run an atomic handler' }
  }

  const resolution = registry.resolve(row)
  if (resolution.type === 'unknown') return { type: 'refuse', detail: resolution.detail }
  if (row.holder === asking.holder && row.sealed === null)
    return { type: 'ours', definition: resolution.definition }

  const { definition } = resolution
  const patience = { ...settings.pipeline(definition), leaseBoundMs: settings.leaseBoundMs(definition) }
  const unfinished = decideUnfinished(row, patience, asking.onlyDue)
  switch (unfinished.type) {
    case 'held':
      return { type: 'in_flight', leaseLeftMs: unfinished.leaseLeftMs }
    case 'rests':
      return { type: 'in_flight', leaseLeftMs: unfinished.restMs }
    case 'sealed':
      return refuseSealed(unfinished.error)
    case 'mark_stuck':
      return { type: 'mark_stuck', definition, reason: unfinished.reason }
    case 'free':
      return resolution.type === 'registered'
        ? { type: 'take_over', definition, at: asItStands(row, definition) }
        : upgrade(row, definition, resolution.upgrade)
  }
}

/** Refused until a process has the key that its values were sealed with. */
function refuseSealed({ code, message }: PawlError): Decision {
  return { type: 'refuse', detail: `${message} (${code})` }
}

function upgrade(row: KeyRow, definition: PipelineDefinition, from: UpgradeFrom): Decision {
  const recoveryPoint = upgradePoint(definition, from, row.recoveryPoint)
  const callPhase = row.intent === null ? null : upgradePoint(definition, from, row.intent.phase)
  if (recoveryPoint === null || (row.intent !== null && callPhase === null)) {
    const point = recoveryPoint === null ? row.recoveryPoint : row.intent?.phase
    return {
      type: 'refuse',
      detail: `upgradesFrom version ${row.version} does not say where '${point}' is now`,
    }
  }
  const next = phaseAfter(definition, recoveryPoint)
  const callMoved = row.intent !== null && next.name !== callPhase
  if (callMoved || (row.effectEpoch > 0 && next.kind !== 'foreign')) {
    // Running another phase first would forget what is known of the call, and the call would be made again.
    return {
      type: 'refuse',
      detail: `version ${definition.version} has a phase before a call that was under way`,
    }
  }
  try {
    const intent = row.intent === null || callPhase === null ? null : { ...row.intent, phase: callPhase }
    return {
      type: 'take_over',
      definition,
      at: { recoveryPoint, intent, effectEpoch: row.effectEpoch, stateJson: upgradeState(row, from) },
    }
  } catch (error) {
    const { message } = safeError(error)
    return { type: 'refuse', detail: `upgradesFrom version ${row.version}: state() failed: ${message}` }
  }
}

function upgradeState(row: KeyRow, from: UpgradeFrom): string | null {
  if (from.state === undefined) return null
  const state: unknown = from.state(JSON.parse(row.stateJson) as StateObject)
  if (disarmPromise(state) || typeof state !== 'object' || state === null) {
    throw new TypeError('it has to return the new state synchronously')
  }
  return encodeJson(state, { what: 'the upgraded state', maxBytes: Number.MAX_SAFE_INTEGER })
}
