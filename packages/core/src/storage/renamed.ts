/**
 * Ends a statement that deletes rows in a CTE named `gone`, whose copies under other names follow in the same transaction: unless all of
 * the rows of the array were deleted, it fails, and nothing is committed.
 */
export const gone = (ids: string): string => `
  SELECT CASE WHEN count(*) = cardinality(${ids}::uuid[]) THEN 1
              ELSE ('pawl: others have some of the rows, deleted: ' || count(*))::integer END AS rows
    FROM gone`

/** A moment to the microsecond, from a number of microseconds. */
export const moment = (parameter: string): string =>
  `('epoch'::timestamptz + (${parameter}::double precision * interval '1 microsecond'))`
