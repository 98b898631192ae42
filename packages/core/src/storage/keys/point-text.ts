/**
 * Where a key stands, for people: the last phase that ran, and which were skipped since, as in
 * `shipment_booked (refunded skipped)`. The recovery point alone would say `refunded` about an order that was paid and
 * shipped. It reads the row `k`; `pointOf` is the same in TypeScript. After an upgrade to another version, the trail
 * names points that this version no longer has.
 */
export const POINT_TEXT = `CASE WHEN pg_catalog.jsonb_path_exists(k.trail::pg_catalog.jsonb, '$[last].s')
            AND pg_catalog.jsonb_path_query_first(k.trail::pg_catalog.jsonb, '$[last].p') = pg_catalog.to_jsonb(k.recovery_point) THEN (
         SELECT pg_catalog.concat(coalesce(pg_catalog.max(e.p) FILTER (WHERE e.at = e.last_run), 'started'), ' (',
                  pg_catalog.string_agg(e.p, ', '::text ORDER BY e.at) FILTER (WHERE e.at > e.last_run), ' skipped)')
           FROM (SELECT t.p, t.at, coalesce(pg_catalog.max(t.at) FILTER (WHERE t.s IS NULL) OVER (), 0::bigint) AS last_run
                   FROM ROWS FROM (pg_catalog.json_to_recordset(k.trail) AS (p pg_catalog.text, s boolean))
                        WITH ORDINALITY AS t (p, s, at)) AS e)
       ELSE k.recovery_point END`
