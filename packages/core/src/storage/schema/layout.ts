import { checkOneOf, checkWholeNumber, invalidOption, type OptionOwner } from '../../check-option.js'

/**
 * How the tables are stored: as one table each, each divided into partitions by a hash of the scope, or, with Citus,
 * each divided into shards on several servers by a hash of the scope.
 */
export type Layout =
  | { readonly kind: 'plain' }
  | { readonly kind: 'partitioned'; readonly partitions: number }
  | { readonly kind: 'citus'; readonly shards: number }

/** What a schema may be created with. */
export interface LayoutOptions {
  /**
   * `plain`: one table each. `partitioned`: keys, effects and jobs are divided by a hash of the scope, on one server, so that
   * every index and every vacuum is a fraction of the size. `citus`: all tables are distributed by scope over the servers
   * of a Citus cluster. Default: whatever the schema has; `plain` if it is new.
   */
  readonly layout?: Layout['kind']
  /** Into how many partitions. Default 16. It cannot be changed later. */
  readonly partitions?: number
  /** Into how many shards. Default 32. Citus can split them later. */
  readonly shards?: number
}

export const LAYOUT_OPTIONS = ['layout', 'partitions', 'shards'] as const

const LAYOUT_KINDS = ['plain', 'partitioned', 'citus'] as const satisfies readonly Layout['kind'][]

/** With a hundred million keys, each has six million, and a statement that is kept prepared still has few to lock. */
const DEFAULT_PARTITIONS = 16
/** A statement that is kept prepared locks all of them each time that it is executed. */
const MAX_PARTITIONS = 256

/** What Citus itself takes: enough to spread over sixteen servers, and few enough to ask all of them. */
const DEFAULT_SHARDS = 32
/** The background services ask every shard, and Citus keeps metadata of each on every server. */
const MAX_SHARDS = 1024

const PLAIN: Layout = { kind: 'plain' }

/** Returns the layout that is asked for; null if any will do. */
export function checkLayout(owner: OptionOwner, options: LayoutOptions): Layout | null {
  const { layout, partitions, shards } = options
  checkOneOf(owner, 'layout', layout, LAYOUT_KINDS)
  checkWholeNumber(owner, 'partitions', partitions, 2, MAX_PARTITIONS)
  checkWholeNumber(owner, 'shards', shards, 1, MAX_SHARDS)
  if (partitions !== undefined && layout !== 'partitioned')
    throw invalidOption(owner, 'partitions', partitions, "nothing unless layout is 'partitioned'")
  if (shards !== undefined && layout !== 'citus')
    throw invalidOption(owner, 'shards', shards, "nothing unless layout is 'citus'")
  if (layout === undefined) return null
  switch (layout) {
    case 'plain':
      return PLAIN
    case 'partitioned':
      return { kind: layout, partitions: partitions ?? DEFAULT_PARTITIONS }
    case 'citus':
      return { kind: layout, shards: shards ?? DEFAULT_SHARDS }
  }
}

/** For a schema that is new, if no layout was asked for. */
export const DEFAULT_LAYOUT = PLAIN

export function sameLayout(one: Layout, other: Layout): boolean {
  return sayLayout(one) === sayLayout(other)
}

/** Such as `partitioned (16)`. */
export function sayLayout(layout: Layout): string {
  switch (layout.kind) {
    case 'plain':
      return layout.kind
    case 'partitioned':
      return `${layout.kind} (${layout.partitions})`
    case 'citus':
      return `${layout.kind} (${layout.shards})`
  }
}
