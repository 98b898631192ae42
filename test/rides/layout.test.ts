import { describe, expect, test } from 'vitest'
import { firstUnlessDeep } from '../support/amounts.js'
import { askForRide, expectBalancedBooks, json, newKey } from '../support/rides-client.js'
import { Rides } from '../support/rides-processes.js'

const PARTITIONS = 16

describe.each(
  firstUnlessDeep(1, [
    ['partitioned', PARTITIONS],
    ['plain', 0],
  ] as const),
)('with LAYOUT=%s', (layout, partitions) => {
  test('riders are served, rides refer to their keys, and the layout stays', async () => {
    const rides = await Rides.start()
    try {
      const api = await rides.startApi({ env: { LAYOUT: layout } })
      const key = newKey()
      const answers = [
        await askForRide(api.url, key),
        await askForRide(api.url, key),
        await askForRide(api.url, key, { token: 'rider-2' }),
        await askForRide(api.url, newKey(), { token: 'rider-declined' }),
      ]
      expect(answers.map(({ status }) => status)).toEqual([201, 201, 201, 402])
      expect(json(answers[1] as (typeof answers)[0])).toEqual(json(answers[0] as (typeof answers)[0]))
      await expectBalancedBooks(rides)
      const parts = await rides.rows(
        `SELECT 1 FROM pg_inherits WHERE inhparent = 'pawl.idempotency_keys'::regclass`,
      )
      expect(parts).toHaveLength(partitions)

      // What the reaper does to a key.
      await rides.rows('DELETE FROM pawl.idempotency_keys')
      const kept = await rides.rows('SELECT user_id IS NOT NULL AS rider, key_id FROM rides')
      expect(kept).toEqual(Array.from({ length: 3 }, () => ({ rider: true, key_id: null })))

      // Another process on the same database.
      const other = layout === 'plain' ? 'partitioned' : 'plain'
      await expect(rides.startApi({ env: { LAYOUT: other } })).rejects.toThrow()
      await rides.startApi({ env: { LAYOUT: layout } })
    } finally {
      await rides.end()
    }
  })
})
