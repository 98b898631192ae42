import { boundStatement, parsedAs, statementIn, type WireMessage } from './wire-message.js'

const BEGINS = /^\s*(?:begin|start\s+transaction)\b/i
const WRITES = /^\s*(?:with\b[^]*\b)?(?:insert\s+into|update|delete\s+from|merge\s+into)\b/i

/**
 * Finds messages that write more than once outside a transaction block. PostgreSQL itself makes one transaction of what
 * comes before a Sync; servers that distribute tables do not. So whatever writes twice has to have a BEGIN.
 */
export class LoneWrites {
  /** The texts of what was parsed on this connection, by name. */
  readonly #parsed = new Map<string, string>()
  #begins = false
  #writes: string[] = []

  /** Notes a message of the client. Returns the statements of a batch that ends here and has no BEGIN; null if it is fine. */
  note(message: WireMessage): readonly string[] | null {
    const { type, status } = message
    const text = statementIn(message)
    if (type === 'Parse') this.#parsed.set(parsedAs(message), text ?? '')
    if (type === 'Bind') this.#classify(this.#parsed.get(boundStatement(message)) ?? '')
    if (type === 'Query') this.#classify(text ?? '')
    if (type !== 'Sync' && type !== 'Query') return null
    const several = status === 'I' && !this.#begins && this.#writes.length > 1 ? this.#writes : null
    this.#begins = false
    this.#writes = []
    return several
  }

  #classify(text: string): void {
    if (BEGINS.test(text)) this.#begins = true
    else if (WRITES.test(text)) this.#writes.push(text)
  }
}
