import type { Effect } from './effect.js'
import { type FakeAnswer, refusal, replayed, toWire, type WireAnswer } from './fake-answer.js'
import { type FakeRequest, isQuestion, parametersOf } from './fake-request.js'
import type { ProviderRules } from './provider-options.js'
import type { RequestRecord } from './received-request.js'

/** A function of the user, or the kit's listener, threw or returned something unusable. */
export interface ProviderFailure {
  readonly where: 'answer' | 'keyOf' | 'find' | 'onRequest'
  readonly error: unknown
}

interface Remembered {
  readonly parameters: string
  /** It is a promise, so that two requests at the same time are one effect. */
  readonly answer: Promise<WireAnswer>
}

const NOT_FOUND = refusal(404, 'not_found', 'There is no such effect.')
const KEY_REUSED = refusal(
  409,
  'idempotency_key_reused',
  'This idempotency key was first used with other parameters. Nothing has been executed.',
)

/**
 * What a provider knows: which requests arrived, which of them had an effect, and what it answered under which key. Each case of
 * the kit has a state of its own, so that a request that outlives its case changes no other case's.
 */
export class ProviderState {
  readonly requests: RequestRecord[] = []
  readonly ledger: Effect[] = []
  readonly failures: ProviderFailure[] = []
  readonly #rules: ProviderRules
  readonly #remembered = new Map<string, Remembered>()
  readonly #waiting: { readonly count: number; readonly arrived: () => void }[] = []

  constructor(rules: ProviderRules) {
    this.#rules = rules
  }

  add(record: RequestRecord): void {
    this.requests.push(record)
    for (const { count, arrived } of this.#waiting) if (this.requests.length >= count) arrived()
  }

  arrived(count: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.requests.length >= count) resolve()
      else this.#waiting.push({ count, arrived: resolve })
    })
  }

  /** Stores the key by which a repetition of this request is recognised. Returns an answer only if that fails. */
  readKey(record: RequestRecord): WireAnswer | null {
    const { keyOf } = this.#rules
    // A query has no effect that could happen twice, and no body that keyOf could read.
    if (keyOf === null || isQuestion(record.request)) return null
    try {
      record.key = checkedKey(keyOf(record.request))
      record.idempotencyKey = record.key ?? record.idempotencyKey
      return null
    } catch (error) {
      return this.failed('keyOf', error)
    }
  }

  /** Does what the provider does when no fault strikes. Never rejects. */
  async process(record: RequestRecord): Promise<WireAnswer> {
    const { request, key } = record
    if (isQuestion(request)) return this.#find(request)
    if (key === null) return this.#execute(record)
    const parameters = parametersOf(request)
    const known = this.#remembered.get(key)
    if (known !== undefined)
      return known.parameters === parameters ? replayed(await known.answer) : KEY_REUSED
    const answer = this.#execute(record)
    this.#remembered.set(key, { parameters, answer })
    return answer
  }

  /** From here on, each key is a new one. What was executed stays in the ledger. */
  forgetKeys(): void {
    this.#remembered.clear()
  }

  /** Records a mistake in one of the user's functions. The user sees it in the answer, and the kit among the failures. */
  failed(where: ProviderFailure['where'], error: unknown): WireAnswer {
    this.failures.push({ where, error })
    const what = error instanceof Error ? error.message : String(error)
    return refusal(500, 'fake_provider_failed', `fakeProvider: ${where} failed: ${what}`)
  }

  async #execute(record: RequestRecord): Promise<WireAnswer> {
    const { request, idempotencyKey, attribution } = record
    const answer = await this.#ask('answer', () => this.#rules.answer(request))
    if (answer.status >= 400) return answer
    const { method, path, body } = request
    const { tick } = attribution
    const id = idIn(answer.body) ?? request.id
    this.ledger.push({ id, idempotencyKey, method, path, body, answer: answer.body, tick, at: new Date() })
    record.executed = true
    return answer
  }

  async #find(request: FakeRequest): Promise<WireAnswer> {
    return this.#ask('find', () => this.#rules.find(request, [...this.ledger]))
  }

  async #ask(
    where: 'answer' | 'find',
    ask: () => FakeAnswer | null | Promise<FakeAnswer | null>,
  ): Promise<WireAnswer> {
    try {
      const answer = await ask()
      return answer === null && where === 'find' ? NOT_FOUND : toWire(answer as FakeAnswer, 'its answer')
    } catch (error) {
      return this.failed(where, error)
    }
  }
}

function checkedKey(key: unknown): string | null {
  if (key === null || typeof key === 'string') return key
  throw new TypeError(
    `it returned a value of type ${typeof key}; it has to return a string, or null for no key`,
  )
}

function idIn(body: unknown): string | null {
  const { id } = (typeof body === 'object' && body !== null ? body : {}) as { id?: unknown }
  return typeof id === 'string' ? id : null
}
