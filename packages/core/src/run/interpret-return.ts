import { PawlError } from '../errors.js'
import { isPlainObject } from '../is-plain-object.js'
import type { Caps } from './caps.js'
import {
  headerBytes,
  isTransientStatus,
  Respond,
  RetryLater,
  type StoredResponse,
} from '../pipeline/directive.js'
import { encodeJson } from '../pipeline/json-value.js'
import type { StateObject } from '../pipeline/phase.js'

/** What a phase's return value asks for. */
export type Returned =
  | { readonly type: 'advance'; readonly stateJson: string }
  | { readonly type: 'finish'; readonly response: StoredResponse }
  /** Roll back and give the key back: retryLater(), or a response that must not become final. */
  | { readonly type: 'roll_back'; readonly directive: Respond | RetryLater }
  /** onError or authorize had nothing to say. */
  | { readonly type: 'nothing' }

/** Which function of a phase returned: what they may return differs. */
export type ReturnedBy = 'phase' | 'finish' | 'onError' | 'authorize'

export function interpretReturn(
  value: unknown,
  by: ReturnedBy,
  at: { readonly pipeline: string; readonly phase: string; readonly stateJson: string; readonly caps: Caps },
): Returned {
  if (value instanceof RetryLater) return { type: 'roll_back', directive: value }
  if (value instanceof Respond) {
    if (isTransientStatus(value.response.status)) return { type: 'roll_back', directive: value }
    checkResponseSize(value.response, at)
    return { type: 'finish', response: value.response }
  }
  const nothing = value === undefined || value === null
  if (nothing && (by === 'onError' || by === 'authorize')) return { type: 'nothing' }
  if (nothing && by === 'phase') return { type: 'advance', stateJson: at.stateJson }
  // A retryLater() from another copy of this package must not pass for state.
  if (by !== 'phase' || !isPlainObject(value)) throw invalidReturn(by, at)

  const what = `the state after phase '${at.phase}' of pipeline '${at.pipeline}'`
  const state = mergeState(JSON.parse(at.stateJson) as StateObject, value as StateObject)
  return { type: 'advance', stateJson: encodeJson(state, { what, maxBytes: at.caps.stateBytes }) }
}

/** Two spreads are slow: V8 makes a new hidden class each time. But assigning to `__proto__` would not set a member. */
function mergeState(state: StateObject, patch: StateObject): StateObject {
  return Object.hasOwn(patch, '__proto__') ? { ...state, ...patch } : Object.assign(state, patch)
}

function checkResponseSize(
  response: StoredResponse,
  at: { readonly pipeline: string; readonly phase: string; readonly caps: Caps },
): void {
  const of = `of phase '${at.phase}' of pipeline '${at.pipeline}'`
  if (response.body.length > at.caps.responseBytes) {
    throw new PawlError(
      'PAWL_TOO_LARGE',
      `The response ${of} is ${response.body.length} bytes; the cap is ${at.caps.responseBytes}. ` +
        'Answer with a link to it, or raise the cap in createEngine({ caps }).',
    )
  }
  const bytes = headerBytes(response)
  if (bytes > at.caps.headerBytes) {
    throw new PawlError(
      'PAWL_TOO_LARGE',
      `The headers of the response ${of} are ${bytes} bytes; the cap is ${at.caps.headerBytes}. ` +
        'Put large values in the body, or raise headerBytes in createEngine({ caps }).',
    )
  }
}

function invalidReturn(by: ReturnedBy, at: { readonly pipeline: string; readonly phase: string }): PawlError {
  const takes = {
    phase: 'an object that is merged into the state, respond(), retryLater(), or nothing',
    finish: 'respond() or retryLater()',
    onError: 'respond(), retryLater(), or nothing',
    authorize: 'respond(), retryLater(), or nothing',
  }[by]
  const who = {
    phase: `Phase '${at.phase}'`,
    finish: `Phase '${at.phase}'`,
    onError: `onError of phase '${at.phase}'`,
    authorize: 'authorize',
  }[by]
  return new PawlError('PAWL_INVALID_RESULT', `${who} of pipeline '${at.pipeline}' has to return ${takes}.`)
}
