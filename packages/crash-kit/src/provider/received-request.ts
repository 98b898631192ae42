import type { ProviderRequest } from '../history.js'
import type { FakeRequest } from './fake-request.js'
import { keyHeaderOf } from './provider-options.js'

/** A request that has arrived, and what became of it. */
export interface ReceivedRequest extends FakeRequest {
  /** The key it came under, whether or not the provider deduplicates on it; null where none was sent. */
  readonly idempotencyKey: string | null
  /** Whether it made an effect: false for a repetition, a refusal and a question. */
  readonly executed: boolean
  /** What it was answered with, heard or not; null while there is no answer, and for ever if there is none. */
  readonly status: number | null
  readonly at: Date
}

/** Whose request it is, as far as the kit knows. */
export type Attribution = Pick<ProviderRequest, 'tick' | 'phase' | 'actor' | 'inTransaction'>

/** Filled in while the request is served. */
export interface RequestRecord {
  readonly request: FakeRequest
  readonly at: Date
  /** What a repetition is known by; null where this request is deduplicated on nothing. */
  key: string | null
  idempotencyKey: string | null
  attribution: Attribution
  executed: boolean
  status: number | null
}

/** `order`: how many have arrived, with this one. */
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

/** As the oracle reads it: with its query, which may differ between attempts as a body may. */
export function providerRequestOf(record: RequestRecord): ProviderRequest {
  const { request, idempotencyKey, executed, attribution } = record
  const { method, path, query, body } = request
  const asked = query.size === 0 ? path : `${path}?${query.toString()}`
  return { ...attribution, method, path: asked, body, idempotencyKey, executed }
}
