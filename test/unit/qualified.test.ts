import { qualified } from '@pawl/core/internal'
import { describe, expect, test } from 'vitest'

describe('a name that PostgreSQL would look up gets its schema', () => {
  test.each([
    ['SELECT 1 + 2', 'SELECT 1 OPERATOR(pg_catalog.+) 2'],
    ['SELECT clock_timestamp()', 'SELECT pg_catalog.clock_timestamp()'],
    ['SELECT $1::uuid, $2::text[]', 'SELECT $1::pg_catalog.uuid, $2::pg_catalog.text[]'],
    ['SELECT FROM pg_class AS c', 'SELECT FROM pg_catalog.pg_class AS c'],
    ["SELECT a ->> 'it''s = here' FROM t", "SELECT a OPERATOR(pg_catalog.->>) 'it''s = here' FROM t"],
    ['SELECT a = ANY ($1::bigint[])', 'SELECT a OPERATOR(pg_catalog.=) ANY ($1::bigint[])'],
    ['SELECT (a, b) > (c, d)', 'SELECT (a, b) OPERATOR(pg_catalog.>) (c, d)'],
    ['SELECT a[1] = b', 'SELECT a[1] OPERATOR(pg_catalog.=) b'],
  ])('%s', (written, sent) => {
    expect(qualified(written)).toBe(sent)
  })
})

describe('a word that belongs to the language, has a schema or is a plain name stays as it is', () => {
  test.each([
    'SELECT * FROM "s"."t" AS v (a, b)',
    'SELECT t.* FROM t',
    'SELECT coalesce(greatest(a, b), least(c, d)), extract(epoch FROM e)',
    "SELECT $1::integer, $2::double precision, interval '1 s'",
    'SELECT pg_catalog.now()',
    'UPDATE t SET a = $1, b = b.c, d = CASE WHEN e THEN f END FROM g WHERE h RETURNING i',
    'DELETE FROM t USING (SELECT 1) AS x WHERE "a = b"',
  ])('%s', (sql) => {
    expect(qualified(sql)).toBe(sql)
  })

  test('so does the "=" of each column that is set, and no other', () => {
    expect(qualified('UPDATE t SET a = b = c, d = (e = f) WHERE g = h')).toBe(
      'UPDATE t SET a = b OPERATOR(pg_catalog.=) c, d = (e OPERATOR(pg_catalog.=) f) WHERE g OPERATOR(pg_catalog.=) h',
    )
  })
})

describe('SQL that cannot be made safe is refused', () => {
  test.each([
    ['SELECT a IN (1, 2)', 'IN'],
    ['SELECT a BETWEEN 1 AND 2', 'BETWEEN'],
    ["SELECT a LIKE 'x'", 'LIKE'],
    ['SELECT a IS DISTINCT FROM b', 'DISTINCT'],
    ['SELECT CASE a WHEN 1 THEN 2 END', 'CASE'],
    ['SELECT FROM a JOIN b USING (c)', 'USING'],
    ['SELECT NULLIF(a, b)', 'NULLIF'],
    ['SELECT COUNT(*)', 'COUNT'],
    ['SELECT -a', '-'],
    ['SELECT 1 -- one', '--'],
  ])('%s', (sql, token) => {
    expect(() => qualified(sql)).toThrow(`'${token}'`)
  })

  test.each(['a = b + c', 'a + b * c', 'a || b - c', 'a < b = c'])(
    'an operator whose operands would change: %s',
    (expression) => {
      expect(() => qualified(`SELECT ${expression}`)).toThrow('parentheses')
    },
  )

  test.each([
    'a + b = c',
    'a * b + c',
    'a - b - c',
    'a = (b + c) AND d = e',
    'a = CASE WHEN b < c THEN d + e END',
  ])('but not if they stay the same: %s', (expression) => {
    expect(qualified(`SELECT ${expression}`)).toContain('OPERATOR')
  })
})
