import type {
  Because,
  Intervention,
  JsonValue,
  KeyView,
  Operator,
  OperatorResponse,
  SteerOptions,
} from '@pawl/core'
import { type Body, flagOf, readBody, reasonOf, revisionOf } from '../parse-body.js'
import { invalid, parseMoment } from '../parse-query.js'

/** What an action is asked for with. */
export interface Asked {
  readonly operator: Operator
  readonly keyId: string
  readonly because: Because
  readonly options: SteerOptions
  readonly body: Body
}

/** Something that a person can do to a key. */
export interface KeyAction {
  /** Members of the body, besides `reason` and `ifRevision`. */
  readonly takes: readonly string[]
  readonly run: (asked: Asked) => Promise<Intervention>
  /** What it will do, in a sentence or two, to the key as it is. `then`: what would happen after it. */
  readonly would: (key: KeyView, body: Body, then: string | null) => string
  /** What it has done. */
  readonly did: (key: KeyView, body: Body) => string
}

const RUNS_AGAIN = 'It becomes running again, and its attempts and age count from now.'
const WHO_RUNS_IT = "a completer, or the client's next retry, goes on"

/** By the name in the address. `erase` is not about the key's row alone: see `erase-key.ts`. */
export const KEY_ACTIONS: Readonly<Record<string, KeyAction>> = {
  retry: {
    takes: [],
    run: ({ operator, keyId, because, options }) => operator.unstick({ keyId }, because, undefined, options),
    would: ({ point }, _body, then) =>
      `${RUNS_AGAIN} ${capital(WHO_RUNS_IT)} from ${point}.${then === null ? '' : ` ${then}`}`,
    did: ({ point }) => `It is running again: ${WHO_RUNS_IT} from ${point}.`,
  },
  executed: {
    takes: ['result', 'phase'],
    run: ({ operator, keyId, because, options, body }) =>
      operator.unstick(
        { keyId },
        because,
        { type: 'executed', result: resultOf(body), ...phaseOf(body) },
        options,
      ),
    would: ({ call }) =>
      `The call of ${phaseText(call?.phase)} counts as executed, with the result that you give. ${RUNS_AGAIN} It is settled with that result, and the provider is not called again.`,
    did: ({ call }) =>
      `The call of ${phaseText(call?.phase)} counts as executed: ${WHO_RUNS_IT} with the result you gave.`,
  },
  'not-executed': {
    takes: ['phase'],
    run: ({ operator, keyId, because, options, body }) =>
      operator.unstick({ keyId }, because, { type: 'not_executed', ...phaseOf(body) }, options),
    would: ({ call }) =>
      `The call of ${phaseText(call?.phase)} counts as not executed. ${RUNS_AGAIN} The call is made again, under a new provider key: if the provider did execute the first one, it happens twice.`,
    did: ({ call }) =>
      `The call of ${phaseText(call?.phase)} counts as not executed: ${WHO_RUNS_IT}, and calls under a new provider key.`,
  },
  answer: {
    takes: ['status', 'body', 'headers', 'wipe', 'retentionMs'],
    run: ({ operator, keyId, because, options, body }) =>
      operator.answer({ keyId }, because, responseOf(body), options),
    would: (_key, body) =>
      `It is finished with your response, status ${String(body['status'])}. Every retry gets exactly that, and no phase runs any more. What its phases did so far stays.`,
    did: (_key, body) => `It is finished with your response, status ${String(body['status'])}.`,
  },
  revoke: {
    takes: [],
    run: ({ operator, keyId, because, options }) => operator.revoke({ keyId }, because, options),
    would: () =>
      `The lease is taken from its holder at once, and ${WHO_RUNS_IT}. A holder that is still alive can commit nothing any more, but a call that it is making is not undone.`,
    did: () => `The lease is taken from its holder: ${WHO_RUNS_IT}.`,
  },
  extend: {
    takes: ['until'],
    run: ({ operator, keyId, because, options, body }) =>
      operator.extend({ keyId }, because, parseMoment('until', body['until']), options),
    would: (_key, body) =>
      `It is kept until ${parseMoment('until', body['until']).toISOString()}, and retries get its answer for as long.`,
    did: ({ expiresAt }) => `It is kept until ${expiresAt?.toISOString() ?? 'then'}.`,
  },
  forget: {
    takes: ['effectsUndone'],
    run: ({ operator, keyId, because, options, body }) =>
      operator.forget({ keyId }, because, { ...options, effectsUndone: flagOf(body, 'effectsUndone') }),
    would: (_key, body) =>
      `Its row is deleted, and the next request with this key runs again from the start.${flagOf(body, 'effectsUndone') ? ' Its effects are marked as undone, because you say that you undid them at the provider.' : ''}`,
    did: () => 'Its row is deleted: the next request with this key runs again from the start.',
  },
}

/** Reads what every action takes. */
export function readAction(
  action: KeyAction,
  body: unknown,
  given: {
    readonly operator: Operator
    readonly keyId: string
    readonly actor: string
    readonly dryRun: boolean
  },
): Asked {
  const read = readBody(body, ['reason', 'ifRevision', ...action.takes])
  const { operator, keyId, actor, dryRun } = given
  // Nothing is written by a preview, so nobody has to say why yet.
  const reason = dryRun && read['reason'] === undefined ? 'preview' : reasonOf(read)
  return {
    operator,
    keyId,
    because: { actor, reason },
    options: { ...revisionOf(read), ...(dryRun && { dryRun }) },
    body: read,
  }
}

function resultOf(body: Body): JsonValue {
  if (body['result'] === undefined)
    throw invalid(
      'result is missing: what the call would have returned, as JSON. Pass null if it returned nothing.',
    )
  return body['result'] as JsonValue
}

function phaseOf({ phase }: Body): { readonly phase?: string } {
  return phase === undefined ? {} : { phase: phase as string }
}

/** Core checks each member. */
function responseOf({ status, body, headers, wipe, retentionMs }: Body): OperatorResponse {
  return {
    status: status as number,
    ...(body !== undefined && { body: body as JsonValue }),
    ...(headers !== undefined && { headers: headers as Record<string, string> }),
    ...(wipe !== undefined && { wipe: wipe as NonNullable<OperatorResponse['wipe']> }),
    ...(retentionMs !== undefined && { retentionMs: retentionMs as number }),
  }
}

function phaseText(phase: string | undefined): string {
  return phase === undefined ? 'the phase' : `phase '${phase}'`
}

function capital(text: string): string {
  return `${text.slice(0, 1).toUpperCase()}${text.slice(1)}`
}
