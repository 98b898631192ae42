import type { ProviderRequest } from '../history.js'
import type { FakeRequest } from './fake-request.js'
import { keyHeaderOf } from './provider-options.js'

/** A request that has arrived, and what became of it. */
export interface ReceivedRequest extends FakeRequest {
  /** The key that it was sent under, whether or not the provider deduplicates on it; null when none was sent. */
  readonly idempotencyKey: string | null
  /** Whether it had an effect: false for repetitions, refusals and queries. */
  readonly executed: boolean
  /** The status of its answer, whether or not the client got it; null while there is no answer, and if there never is one. */
  readonly status: number | null
  readonly at: Date
}

/** Which actor and phase sent it, as far as the kit knows. */
export type Attribution = Pick<ProviderRequest, 'tick' | 'phase' | 'actor' | 'inTransaction'>

/** What is recorded while the request is served. */
export interface RequestRecord {
  readonly request: FakeRequest
  readonly at: Date
  /** The key by which a repetition is recognised; null when this request is not deduplicated. */
  key: string | null
  idempotencyKey: string | null
  attribution: Attribution
  executed: boolean
  status: number | null
}

/** `order` is how many have arrived, including this one. */
export function recordOf(request: FakeRequest, order: number): RequestRecord {
  return {
    request,
    at: new Date(),
    key: null,
    idempotencyKey: keyHeaderOf(request),
    attribution: { tick: order, phase: null, actor: null, inTransaction: false },
    executed: false,
    status: null,
  }
}

export function receivedRequestOf(record: RequestRecord): ReceivedRequest {
  const { request, idempotencyKey, executed, status, at } = record
  return { ...request, idempotencyKey, executed, status, at }
}

/** Returns the request as the oracle reads it: with its query, which may differ between attempts just as a body may. */
export function providerRequestOf(record: RequestRecord): ProviderRequest {
  const { request, idempotencyKey, executed, attribution } = record
  const { method, path, query, body } = request
  const asked = query.size === 0 ? path : `${path}?${query.toString()}`
  return { ...attribution, method, path: asked, body, idempotencyKey, executed }
}
