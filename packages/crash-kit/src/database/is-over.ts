import type { Row } from '../history.js'

/** Returns whether nothing automatic happens to the key any more. */
export function isOver(row: Row | null): boolean {
  return row?.['status'] === 'finished' || row?.['status'] === 'stuck'
}
