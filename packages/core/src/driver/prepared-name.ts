import { PREPARE_AFTER_USES, PREPARED_QUERIES } from '../limits.js'
import { sha256 } from '../sha256.js'

/**
 * The name under which a statement is kept prepared. It depends on the text, because two schemas, or two versions of Pawl,
 * may share a connection.
 */
export function preparedAs(name: string, text: string): string {
  return `pawl_${name}_${sha256(text, 'hex').slice(0, 16)}`
}

/**
 * Decides which of the application's queries are kept prepared. Each connection keeps all of them, and texts that are put
 * together differently each time would fill it: so only a few are kept, those that are used again and again.
 */
export class PreparedQueries {
  readonly #afterUses: number
  readonly #names = new Map<string, string | null>()
  #uses = new Map<string, number>()

  constructor(afterUses = PREPARE_AFTER_USES) {
    this.#afterUses = afterUses
  }

  /** Returns the name under which a query is kept prepared; null if it is not. */
  nameOf(text: string): string | null {
    const known = this.#names.get(text)
    if (known !== undefined) return known
    if (this.#names.size >= PREPARED_QUERIES) return null
    const uses = (this.#uses.get(text) ?? 0) + 1
    if (uses < this.#afterUses) {
      if (this.#uses.size >= PREPARED_QUERIES) this.#uses = new Map()
      this.#uses.set(text, uses)
      return null
    }
    this.#uses.delete(text)
    const name = preparedAs('query', text)
    this.#names.set(text, name)
    return name
  }

  /**
   * For a query whose rows have changed: from now on it is not prepared. Each connection that has it prepared would refuse
   * it, and there may be more such connections than tries.
   */
  forget(text: string): void {
    this.#names.set(text, null)
  }
}
