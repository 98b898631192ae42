/** `PAWL_LAYOUT=partitioned` runs the tests on tables that are divided by scope. */
export const IS_PARTITIONED = process.env['PAWL_LAYOUT'] === 'partitioned'

/** Few partitions: enough that a statement can miss the right one. */
export const LAYOUT = IS_PARTITIONED ? ({ layout: 'partitioned', partitions: 4 } as const) : {}
