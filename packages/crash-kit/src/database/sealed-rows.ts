import { randomUUID } from 'node:crypto'
import type { JsonValue, Protection } from '@pawl/core'
import { Opening, type RowName, type SealedColumn } from '@pawl/core/internal'
import type { Change, Commit, Row } from '../history.js'

/** What was found out about sealed values as they were opened. Each is a sentence. */
export type Exposed = readonly string[]

/**
 * Opens what an engine's `protect` has sealed, so that the rest of the kit sees rows as they would be without it. While it does, it
 * looks for values that should have been sealed and were not, and for those that open in other places than their own.
 */
export class SealedRows {
  readonly #protection: Protection | null
  readonly #exposed = new Set<string>()
  /** A value is written once and then seen in several versions of its row. */
  readonly #tried = new Set<string>()

  constructor(protection: Protection | null) {
    this.#protection = protection
  }

  get exposed(): Exposed {
    return [...this.#exposed]
  }

  openCommits(commits: readonly Commit[]): Commit[] {
    return commits.map((commit) => ({ ...commit, changes: commit.changes.map((each) => this.#change(each)) }))
  }

  openKey(row: Row | null): Row | null {
    return row === null ? null : this.#row('idempotency_keys', row)
  }

  #change(change: Change): Change {
    const { framework, table, before, after } = change
    if (!framework || this.#protection === null) return change
    const open = (row: Row | null): Row | null => (row === null ? null : this.#row(table, row))
    return { ...change, before: open(before), after: open(after) }
  }

  #row(table: string, row: Row): Row {
    const protection = this.#protection
    if (protection === null) return row
    const text = (name: string): string => (typeof row[name] === 'string' ? row[name] : '')
    const id = { id: text('id'), scope: text('scope') }
    switch (table) {
      case 'idempotency_keys':
        return this.#key(protection, { ...id, key: text('key') }, row)
      case 'staged_jobs':
        return { ...row, ...this.#json(protection, id, 'payload', row), ...this.#error(protection, id, row) }
      default:
        return row
    }
  }

  #key(protection: Protection, of: RowName, row: Row): Row {
    return {
      ...row,
      ...this.#json(protection, of, 'input', row),
      ...this.#json(protection, of, 'state', row),
      ...this.#intent(protection, of, row),
      ...this.#response(protection, of, row),
      ...this.#error(protection, of, row),
    }
  }

  /** A state is empty before the first phase, and an input is null, or a state empty, once it is wiped. */
  #json(protection: Protection, of: RowName, column: 'input' | 'state' | 'payload', row: Row): Row {
    const text = JSON.stringify(row[column] ?? null)
    const plain = column === 'state' ? '{}' : 'null'
    if (text === plain) return {}
    const opened = this.#opened(protection, of, column, text, (opening, as) => opening.json(as, text, plain))
    return opened === null ? {} : { [column]: JSON.parse(opened) as JsonValue }
  }

  #error(protection: Protection, of: RowName, row: Row): Row {
    const text = row['last_error']
    if (typeof text !== 'string') return {}
    const opened = this.#opened(protection, of, 'last_error', text, (opening, as) => opening.text(as, text))
    return opened === null ? {} : { last_error: opened }
  }

  #intent(protection: Protection, of: RowName, row: Row): Row {
    const intent = row['intent'] as { readonly kind: string } | null
    if (intent?.kind !== 'called') return {}
    const text = JSON.stringify(intent)
    const opened = this.#opened(protection, of, 'intent', text, (opening) =>
      JSON.stringify(opening.intent(text)),
    )
    return opened === null ? {} : { intent: JSON.parse(opened) as JsonValue }
  }

  #response(protection: Protection, of: RowName, row: Row): Row {
    if (row['response_status'] == null) return {}
    const headers = JSON.stringify(row['response_headers'])
    const body = typeof row['response_body'] === 'string' ? row['response_body'] : ''
    const opened = this.#opened(protection, of, 'response_body', headers + body, (opening) => {
      const response = opening.response(0, headers, Buffer.from(body.replace(/^\\x/, ''), 'hex'))
      if (response === null) return null
      const bytes = `\\x${Buffer.from(response.body).toString('hex')}`
      return JSON.stringify({ response_headers: response.headers, response_body: bytes })
    })
    return opened === null ? {} : (JSON.parse(opened) as Row)
  }

  /** Returns null, and notes why, if a value does not open. `open` gets the column as which it is to be opened. */
  #opened(
    protection: Protection,
    of: RowName,
    column: SealedColumn,
    text: string,
    open: (opening: Opening, as: SealedColumn) => string | null,
  ): string | null {
    const opening = new Opening({ protection }, of)
    const opened = open(opening, column)
    const place = `${column} of row ${of.id}`
    if (opening.failed !== null) {
      this.#exposed.add(`The ${place} does not open where it is stored: ${opening.failed.message}`)
      return null
    }
    const value = JSON.stringify([of, column, text])
    if (this.#tried.has(value)) return opened
    this.#tried.add(value)
    if (!text.includes(MARK)) this.#exposed.add(`The ${place} is stored in the clear.`)
    else
      for (const [elsewhere, as, where] of otherPlaces(of, column)) {
        const there = new Opening({ protection }, elsewhere)
        open(there, as)
        if (there.failed === null) this.#exposed.add(`The ${place} opens in another ${where}, too.`)
      }
    return opened
  }
}

const MARK = 'pawl:sealed:'

/** Everything that a value is tied to, changed one by one. Intents and responses are opened as what they are. */
function otherPlaces(
  of: RowName,
  column: SealedColumn,
): (readonly [of: RowName, as: SealedColumn, where: string])[] {
  const inOtherRows = [
    [{ ...of, id: randomUUID() }, column, 'row'] as const,
    [{ ...of, scope: `${of.scope} ` }, column, 'scope'] as const,
    ...(of.key === undefined ? [] : [[{ ...of, key: `${of.key} ` }, column, "key's row"] as const]),
  ]
  switch (column) {
    case 'intent':
    case 'response_body':
      return inOtherRows
    default:
      return [...inOtherRows, [of, column === 'state' ? 'input' : 'state', 'column']]
  }
}
