import type { MigrateOptions } from '@pawl/core'

/**
 * `PAWL_LAYOUT=partitioned` runs the tests on tables that are divided by scope. `PAWL_LAYOUT=citus`, with a coordinator of
 * Citus as `DATABASE_URL`, runs them on tables that are distributed by scope.
 */
const KIND = process.env['PAWL_LAYOUT']

/** Few parts: enough that a statement can miss the right one. */
export const LAYOUT: MigrateOptions =
  KIND === 'partitioned'
    ? { layout: 'partitioned', partitions: 4 }
    : KIND === 'citus'
      ? { layout: 'citus', shards: 4 }
      : {}

/** Then a key's id is unique only together with its scope. */
export const IS_DIVIDED = KIND === 'partitioned' || KIND === 'citus'
