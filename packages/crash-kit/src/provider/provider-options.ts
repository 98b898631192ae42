import { checkKnownOptions, checkOptionalFunction, type OptionOwner } from '@pawl/core/internal'
import { KitError } from '../kit-error.js'
import type { FakeAnswer } from './fake-answer.js'
import { type FakeRequest, isPlainObject } from './fake-request.js'
import type { Effect } from './effect.js'

/** How a fake provider behaves when no fault strikes. */
export interface FakeProviderOptions {
  /**
   * Returns the answer to a request that is executed. If it throws, or answers with 400 or above, nothing has been executed: the
   * ledger gets no entry, and the request's key gets the same answer from then on, as with real providers. Default: 200, and the
   * fields of the request with the effect's `id`.
   */
  readonly answer?: (request: FakeRequest) => FakeAnswer | Promise<FakeAnswer>
  /**
   * Returns the key by which a repetition is recognised: requests with the same key are one effect. If it returns null, the request
   * has no key. With null in place of the function, the provider does not deduplicate, for `queryable` and `at_most_once`. Default:
   * the header `idempotency-key`.
   */
  readonly keyOf?: ((request: FakeRequest) => string | null) | null
  /**
   * Answers a query (GET, HEAD) from the ledger. Null becomes 404. Default: what was answered for the effect that is recorded under
   * `?key=…`, or under the header `idempotency-key`.
   */
  readonly find?: (
    request: FakeRequest,
    ledger: readonly Effect[],
  ) => FakeAnswer | null | Promise<FakeAnswer | null>
}

const OPTION_NAMES = ['answer', 'keyOf', 'find'] as const satisfies readonly (keyof FakeProviderOptions)[]

/** The options with their defaults. */
export type ProviderRules = Required<FakeProviderOptions>

export function checkedRules(options: FakeProviderOptions): ProviderRules {
  checkOptions('fakeProvider', (owner) => {
    checkKnownOptions(owner, options, OPTION_NAMES)
    checkOptionalFunction(owner, 'answer', options.answer)
    if (options.keyOf !== null) checkOptionalFunction(owner, 'keyOf', options.keyOf)
    checkOptionalFunction(owner, 'find', options.find)
  })
  return {
    answer: options.answer ?? echo,
    keyOf: options.keyOf === undefined ? keyHeaderOf : options.keyOf,
    find: options.find ?? findByKey,
  }
}

/** Runs checks of core's kind, and throws what they find as an error of the kit. */
export function checkOptions<T>(where: string, check: (owner: OptionOwner) => T): T {
  try {
    return check({ code: 'PAWL_INVALID_OPTION', where })
  } catch (error) {
    throw new KitError('PAWL_KIT_INVALID_OPTION', (error as Error).message)
  }
}

/** Returns the key that the client sent, whether or not the provider deduplicates on it. */
export function keyHeaderOf({ headers }: FakeRequest): string | null {
  const header = headers['idempotency-key']
  return typeof header === 'string' && header !== '' ? header : null
}

function echo({ id, json, form }: FakeRequest): FakeAnswer {
  const fields: object = isPlainObject(json) ? json : Object.fromEntries(form)
  // The effect's id wins over an `id` of the request.
  return { body: { ...fields, id } }
}

function findByKey(request: FakeRequest, ledger: readonly Effect[]): FakeAnswer | null {
  const key = request.query.get('key') ?? keyHeaderOf(request)
  const effect = ledger.find(({ idempotencyKey }) => key !== null && idempotencyKey === key)
  return effect === undefined ? null : { body: effect.answer }
}
