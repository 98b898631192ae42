import type { Tables } from '../tables.js'
import { Opening, type RowName, sealText } from '../sealed-values.js'

/** What a note says of the row before. Of a key, or (with `jobId`) of a job. */
interface Before {
  readonly jobId?: string
  readonly lastError?: string | null
}

/** An error that goes into a note is sealed as it is in its row: a note about a job copies it from there. */
export function sealBefore<B extends Before>(tables: Tables, key: RowName, before: B): B {
  return { ...before, lastError: sealText(tables, key, 'last_error', before.lastError ?? null) }
}

/** Opens that error. If it does not open, it is left out. */
export function openNote(tables: Tables, key: RowName, detailJson: string): string {
  const detail = JSON.parse(detailJson) as { readonly before?: Before | null } | null
  const lastError = detail?.before?.lastError
  if (lastError == null) return detailJson
  const { before } = detail as { readonly before: Before }
  const of = before.jobId === undefined ? key : { id: before.jobId, scope: key.scope }
  const opened = new Opening(tables, of).text('last_error', lastError)
  return opened === lastError
    ? detailJson
    : JSON.stringify({ ...detail, before: { ...before, lastError: opened } })
}
