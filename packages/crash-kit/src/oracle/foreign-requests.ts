import type { JsonValue } from '@pawl/core'
import type { History, PipelineShape, ProviderRequest, Violation } from '../history.js'
import { incarnations } from './key-writes.js'
import { shown } from './same-json.js'
import { isStateChanging } from './state-changing.js'

/** Lints: how a pipeline has to talk to its provider, so that it can be resumed. */
export function foreignRequests(history: History, shape: PipelineShape): Violation[] {
  return [
    ...inCalls(history),
    ...onePerCall(history),
    ...withTheirKey(history, shape),
    ...sameEachTime(history),
  ]
}

const lint = (title: string, detail: string, { tick }: ProviderRequest): Violation => ({
  rule: 'lint',
  title,
  detail,
  tick,
})

const changing = ({ requests }: History): ProviderRequest[] => requests.filter(isStateChanging)

const describeRequest = ({ method, path, actor, phase }: ProviderRequest): string =>
  `${actor ?? 'Somebody'} sent ${method} ${path}${phase === null ? '' : ` in '${phase}'`}`

function inCalls(history: History): Violation[] {
  return changing(history).flatMap((request) => {
    if (request.inTransaction) {
      const detail = `${describeRequest(request)} while the phase's transaction was open: a rollback does not take it back.`
      return [lint('no foreign request is made inside a transaction', detail, request)]
    }
    if (request.phase !== null) return []
    const detail = `${describeRequest(request)} outside every call: nothing records it, and a resume may send it again.`
    return [lint('no foreign request is made outside of a call', detail, request)]
  })
}

/**
 * A request belongs to the last call that its actor began before it. The same request again, under the same key, is not a second
 * one, because some SDKs repeat what a broken connection has lost.
 */
function onePerCall(history: History): Violation[] {
  const groups = new Map<string, ProviderRequest[]>()
  for (const request of changing(history)) {
    const { actor, phase, tick, inTransaction } = request
    const begun = history.calls.filter(
      (call) => call.actor === actor && call.phase === phase && call.tick <= tick,
    )
    if (begun.length === 0 || inTransaction) continue
    const call = JSON.stringify([actor, phase, begun.length])
    groups.set(call, [...(groups.get(call) ?? []), request])
  }
  return [...groups.values()].flatMap(([first, ...others]) => {
    const more = others.filter((request) => first !== undefined && !isRepetition(first, request))
    const [second] = more
    if (first === undefined || second === undefined) return []
    const besides = more.map(({ method, path }) => `${method} ${path}`).join(', ')
    const detail = `${describeRequest(first)}, and in the same call ${besides}: only one of them can be settled.`
    return [lint('no two foreign requests are made in one call', detail, second)]
  })
}

function isRepetition(first: ProviderRequest, then: ProviderRequest): boolean {
  return (
    first.idempotencyKey !== null &&
    first.idempotencyKey === then.idempotencyKey &&
    differenceOf(first, then) === null
  )
}

function withTheirKey(history: History, { foreign }: PipelineShape): Violation[] {
  const keyed = new Set(foreign.filter(({ guarantee }) => guarantee === 'keyed').map(({ phase }) => phase))
  return changing(history)
    .filter(({ phase, idempotencyKey }) => phase !== null && keyed.has(phase) && idempotencyKey === null)
    .map((request) => {
      const detail = `${describeRequest(request)} without the idempotencyKey that call was given: the provider key was not sent.`
      return lint('a keyed phase sends its provider key', detail, request)
    })
}

/** A key that was deleted and sent again is another request, although its provider may remember the first one for longer. */
function sameEachTime(history: History): Violation[] {
  if (incarnations(history).length > 1) return []
  const firsts = new Map<string, ProviderRequest>()
  return changing(history).flatMap((request) => {
    if (request.idempotencyKey === null) return []
    const first = firsts.get(request.idempotencyKey)
    if (first === undefined) firsts.set(request.idempotencyKey, request)
    const difference = first === undefined ? null : differenceOf(first, request)
    if (difference === null) return []
    const lost = first === undefined ? null : whatWasLost(history, first, request)
    const again = `${describeRequest(request)} under a provider key that had been sent before`
    const detail = lost === null ? `${again}, and ${difference}.` : `${again}. ${lost} Now ${difference}.`
    return [
      lint(
        'an outbound request does not differ between attempts under the same provider key',
        detail,
        request,
      ),
    ]
  })
}

function differenceOf(first: ProviderRequest, then: ProviderRequest): string | null {
  if (first.method !== then.method) return `its method had been ${first.method}`
  if (first.path !== then.path) return `its path had been ${first.path}`
  return first.body === then.body
    ? null
    : `its body was ${shown(then.body)}, where it had been ${shown(first.body)}`
}

/** Names what the database generated, the request contained and a failover lost; null if there is no such value. */
function whatWasLost({ lost }: History, first: ProviderRequest, then: ProviderRequest): string | null {
  const columns = new Map<unknown, string>()
  for (const { framework, table, after } of lost.flatMap(({ changes }) => changes)) {
    if (framework) continue
    for (const [column, value] of Object.entries(after ?? {}))
      if (isOnlyIn(value, first.body, then.body) && !columns.has(value))
        columns.set(value, `${table}.${column}`)
  }
  if (columns.size === 0) return null
  return (
    `It had contained ${[...columns.values()].join(' and ')}, which a failover lost with its row. Send nothing that the database ` +
    'generates: the provider key itself is a reference that stays the same.'
  )
}

function isOnlyIn(value: JsonValue | undefined, one: string, other: string): boolean {
  const text = typeof value === 'string' || typeof value === 'number' ? String(value) : ''
  return text !== '' && one.includes(text) && !other.includes(text)
}
