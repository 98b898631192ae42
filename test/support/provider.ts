import { randomUUID } from 'node:crypto'

/** What the next requests of an account meet. Without a fault, they are executed and answered. */
export type Fault =
  | 'never_arrives'
  | 'executes_then_cuts'
  | 'executes_then_silent'
  | 'silent'
  /** The request is not executed until it is let go. */
  | 'hold_then_execute'
  /** The request is executed at once, and answered when it is let go. */
  | 'execute_then_hold'
  | 'refuse_500'
  /** The refusal is remembered and repeated for its key, as Stripe does. */
  | 'stored_500'
  | 'declined'
  | 'too_many'
  | 'broken_body'

export interface LedgerEntry {
  readonly account: string
  readonly key: string | null
  readonly id: string
  readonly amount: number
}

/** The provider refused or failed. */
export class ProviderError extends Error {
  override readonly name = 'ProviderError'
  readonly status: number
  readonly code: string

  constructor(status: number, code: string) {
    super(`provider answered ${status} ${code}`)
    this.status = status
    this.code = code
  }
}

/** An account of one test at the provider's process. */
export class Provider {
  readonly account = `acct_${randomUUID()}`
  readonly url: string

  constructor(url: string) {
    this.url = url
  }

  /** The foreign side effect. */
  async charge(
    amount: number,
    options: { readonly idempotencyKey?: string; readonly signal?: AbortSignal } = {},
  ): Promise<{ id: string; amount: number }> {
    const { idempotencyKey, signal } = options
    const response = await fetch(`${this.url}/charges`, {
      method: 'POST',
      body: JSON.stringify({ account: this.account, amount }),
      ...(idempotencyKey === undefined ? {} : { headers: { 'idempotency-key': idempotencyKey } }),
      ...(signal === undefined ? {} : { signal }),
    })
    const body = (await response.json()) as { id: string; amount: number; code?: string }
    if (!response.ok) throw new ProviderError(response.status, body.code ?? '')
    return { id: body.id, amount: body.amount }
  }

  /** Returns whether the effect happened, for `reconcile`. */
  async find(key: string): Promise<{ id: string; amount: number } | null> {
    const response = await fetch(`${this.url}/charges?account=${this.account}&key=${encodeURIComponent(key)}`)
    if (response.status === 404) return null
    const { id, amount } = (await response.json()) as LedgerEntry
    return { id, amount }
  }

  /** What really happened. */
  async ledger(): Promise<LedgerEntry[]> {
    return (await (await fetch(`${this.url}/ledger?account=${this.account}`)).json()) as LedgerEntry[]
  }

  /** Everything that arrived, executed or not. */
  async requests(): Promise<{ key: string | null; body: string }[]> {
    return (await (await fetch(`${this.url}/requests?account=${this.account}`)).json()) as {
      key: string | null
      body: string
    }[]
  }

  async willMeet(...faults: Fault[]): Promise<void> {
    await fetch(`${this.url}/faults?account=${this.account}`, {
      method: 'POST',
      body: JSON.stringify(faults),
    })
  }

  /** Resolves when this many requests of the account have arrived. */
  async arrived(count = 1): Promise<void> {
    await fetch(`${this.url}/arrived?account=${this.account}&count=${count}`)
  }

  async letGo(): Promise<void> {
    await fetch(`${this.url}/let-go?account=${this.account}`, { method: 'POST' })
  }
}
