import type { Change, Row } from '../../packages/crash-kit/src/history.js'

/** A change that a test writes into a history. */
export type RowChange = Pick<Change, 'table' | 'framework' | 'op' | 'before' | 'after'>

export const insert = (table: string, after: Row): RowChange => ({
  table,
  framework: false,
  op: 'INSERT',
  before: null,
  after,
})
export const update = (table: string, before: Row, patch: Row): RowChange => ({
  table,
  framework: false,
  op: 'UPDATE',
  before,
  after: { ...before, ...patch },
})
export const remove = (table: string, before: Row): RowChange => ({
  table,
  framework: false,
  op: 'DELETE',
  before,
  after: null,
})
/** The insertion of a row into one of the framework's tables. */
export const insertOwn = (table: string, after: Row): RowChange => ({
  ...insert(table, after),
  framework: true,
})
