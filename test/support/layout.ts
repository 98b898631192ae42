/** `PAWL_LAYOUT=partitioned` runs the tests on tables that are divided by scope. */
export const IS_PARTITIONED = process.env['PAWL_LAYOUT'] === 'partitioned'

/** Few partitions: enough that a statement can miss the right one. */
export const LAYOUT = IS_PARTITIONED ? ({ layout: 'partitioned', partitions: 4 } as const) : {}

/**
 * The column `key_id` of a table of the application, which refers to a key: by its id, or, where that is unique only within its
 * scope, by both. The column `rider` has the scope.
 */
export function keyReference(pawlSchema: string, isPartitioned: boolean = IS_PARTITIONED): string {
  const keys = `${pawlSchema}.idempotency_keys`
  return isPartitioned
    ? `key_id uuid, FOREIGN KEY (key_id, rider) REFERENCES ${keys} (id, scope) ON DELETE SET NULL (key_id)`
    : `key_id uuid REFERENCES ${keys} (id) ON DELETE SET NULL`
}
