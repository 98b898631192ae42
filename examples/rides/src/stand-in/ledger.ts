import { appendFileSync, existsSync, readFileSync } from 'node:fs'

/** One charge that really happened. */
export interface LedgerEntry {
  readonly id: string
  readonly idempotencyKey: string
  readonly amount: number
  readonly currency: string
  /** What the service calls it: the key that it was sent under. */
  readonly reference: string
  readonly at: string
}

/** The provider's books: only ever appended to, in a file of their own, outside every database under test. */
export class Ledger {
  readonly #file: string

  constructor(file: string) {
    this.#file = file
  }

  append(entry: LedgerEntry): void {
    appendFileSync(this.#file, `${JSON.stringify(entry)}\n`)
  }

  entries(): LedgerEntry[] {
    if (!existsSync(this.#file)) return []
    return readFileSync(this.#file, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as LedgerEntry)
  }
}
