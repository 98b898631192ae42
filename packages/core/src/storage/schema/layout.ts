import { checkOneOf, checkWholeNumber, invalidOption, type OptionOwner } from '../../check-option.js'
import type { Tables } from '../tables.js'

/** How the tables are stored: as one table each, or each divided into partitions by a hash of the scope. */
export type Layout =
  | { readonly kind: 'plain' }
  | { readonly kind: 'partitioned'; readonly partitions: number }

/** What a schema may be created with. */
export interface LayoutOptions {
  /**
   * `plain`: one table each. `partitioned`: keys, effects and jobs are divided by a hash of the scope, on one server, so that
   * every index and every vacuum is a fraction of the size. Default: whatever the schema has; `plain` if it is new.
   */
  readonly layout?: Layout['kind']
  /** Into how many partitions. Default 16. It cannot be changed later. */
  readonly partitions?: number
}

export const LAYOUT_OPTIONS = ['layout', 'partitions'] as const

/** With a hundred million keys, each has six million, and a statement that is kept prepared still has few to lock. */
const DEFAULT_PARTITIONS = 16
/** A statement that is kept prepared locks all of them each time that it is executed. */
const MAX_PARTITIONS = 256

const PLAIN: Layout = { kind: 'plain' }

/** Returns the layout that is asked for; null if any will do. */
export function checkLayout(owner: OptionOwner, options: LayoutOptions): Layout | null {
  const { layout, partitions } = options
  checkOneOf(owner, 'layout', layout, ['plain', 'partitioned'])
  checkWholeNumber(owner, 'partitions', partitions, 2, MAX_PARTITIONS)
  if (partitions !== undefined && layout !== 'partitioned')
    throw invalidOption(owner, 'partitions', partitions, "nothing unless layout is 'partitioned'")
  if (layout === undefined) return null
  return layout === 'plain' ? PLAIN : { kind: layout, partitions: partitions ?? DEFAULT_PARTITIONS }
}

/** For a schema that is new, if no layout was asked for. */
export const DEFAULT_LAYOUT = PLAIN

/** Reads how the tables of a schema are stored. */
export const layoutSql = ({ keys }: Tables): string => `
  SELECT c.relkind = 'p' AS partitioned, (SELECT count(*) FROM pg_inherits AS i WHERE i.inhparent = c.oid) AS partitions
    FROM pg_class AS c WHERE c.oid = to_regclass('${keys}')`

export function readLayoutRow(row: Readonly<Record<string, string | null>> | undefined): Layout {
  return row?.['partitioned'] === 't' ? { kind: 'partitioned', partitions: Number(row['partitions']) } : PLAIN
}

export function sameLayout(one: Layout, other: Layout): boolean {
  return sayLayout(one) === sayLayout(other)
}

/** Such as `partitioned (16)`. */
export function sayLayout(layout: Layout): string {
  return layout.kind === 'plain' ? 'plain' : `partitioned (${layout.partitions})`
}
