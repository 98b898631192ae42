import { checkKnownOptions, checkOptionalFunction, type OptionOwner } from '@pawl/core/internal'
import { KitError } from '../kit-error.js'
import type { FakeAnswer } from './fake-answer.js'
import { type FakeRequest, isPlainObject } from './fake-request.js'
import type { Effect } from './effect.js'

/** How a fake provider behaves when nothing disturbs it. */
export interface FakeProviderOptions {
  /**
   * The answer to a request that is executed. What throws, or answers with 400 and above, has executed nothing: the
   * ledger gets no entry, and the key of the request gets the same answer from then on, as with real providers.
   * Default: 200, and the fields of the request with the effect's `id`.
   */
  readonly answer?: (request: FakeRequest) => FakeAnswer | Promise<FakeAnswer>
  /**
   * How it knows a repetition: requests with the same key are one effect. Null from the function: this one has no key.
   * Null in place of the function: it does not deduplicate, for `queryable` and `at_most_once`. Default: the header
   * `idempotency-key`.
   */
  readonly keyOf?: ((request: FakeRequest) => string | null) | null
  /**
   * Answers a question (GET, HEAD) from the ledger. Null: 404. Default: what was answered to the effect recorded under
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

/** Runs checks of the engine's kind; what they find is told as an error of the kit. */
export function checkOptions<T>(where: string, check: (owner: OptionOwner) => T): T {
  try {
    return check({ code: 'PAWL_INVALID_OPTION', where })
  } catch (error) {
    throw new KitError('PAWL_KIT_INVALID_OPTION', (error as Error).message)
  }
}

/** What the client sent, whether or not anybody deduplicates on it. */
export function keyHeaderOf({ headers }: FakeRequest): string | null {
  const header = headers['idempotency-key']
  return typeof header === 'string' && header !== '' ? header : null
}

function echo({ id, json, form }: FakeRequest): FakeAnswer {
  const fields: object = isPlainObject(json) ? json : Object.fromEntries(form)
  // The effect's id counts, whatever else the request calls `id`.
  return { body: { ...fields, id } }
}

function findByKey(request: FakeRequest, ledger: readonly Effect[]): FakeAnswer | null {
  const key = request.query.get('key') ?? keyHeaderOf(request)
  const effect = ledger.find(({ idempotencyKey }) => key !== null && idempotencyKey === key)
  return effect === undefined ? null : { body: effect.answer }
}
