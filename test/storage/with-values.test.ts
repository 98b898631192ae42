import { afterAll, expect, test } from 'vitest'
import { withValues } from '../../packages/core/src/storage/schema/with-values.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
afterAll(() => database.drop())

const HOSTILE = [
  "'",
  "''",
  "'; DROP TABLE x; --",
  '\\',
  "\\'",
  "\\\\'--",
  '$1',
  '"',
  '{}',
  '{"a"}',
  'a,b',
  '%s',
  'ü\u2028',
  ' ',
  'NULL',
]

test.each(['on', 'off'])(
  'values come back as they were, with standard_conforming_strings = %s',
  async (setting) => {
    const client = await database.pool({ max: 1 }).connect()
    await client.query(`SET standard_conforming_strings = ${setting}`)
    const text =
      'SELECT $1::text AS one, $2::text[] AS many, $3::double precision AS number, $4::text AS none'
    for (const value of HOSTILE) {
      const { rows } = await client.query<object>(
        withValues(text, [value, [value, ...HOSTILE, null], 1.5, null]),
      )
      expect(rows).toEqual([{ one: value, many: [value, ...HOSTILE, null], number: 1.5, none: null }])
    }
    client.release()
  },
)
