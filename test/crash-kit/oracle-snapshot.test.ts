import { describe, expect, test } from 'vitest'
import type { Row } from '../../packages/crash-kit/src/history.js'
import { snapshotOf } from '../../packages/crash-kit/src/oracle/snapshot.js'
import { HistoryBuilder } from './history-builder.js'
import { cleanRide, Ride } from './ride-histories.js'
import { insert, remove, update } from './row-changes.js'
import { json } from './sample-outcomes.js'

const PHASE = 'charge_created'

describe('the snapshot', () => {
  test('has what was written, returned and executed', () => {
    expect(snapshotOf(cleanRide().build())).toMatchInlineSnapshot(`
      {
        "effects": [
          {
            "effect": "charge_created",
            "key": "key of run 1",
            "key_id": "00000001-0000-4000-8000-000000000004",
            "phase": "charge_created",
            "pipeline": null,
            "provider_key": "pawl_key_of_run_1",
            "reference": "ch_00000001-0000-4000-8000-000000000002",
            "scope": "user 7",
            "version": null,
          },
        ],
        "jobs": [
          {
            "id": "00000001-0000-4000-8000-000000000003",
            "key_id": "00000001-0000-4000-8000-000000000004",
            "name": "send_receipt",
            "payload": {
              "ride": "00000001-0000-4000-8000-000000000001",
            },
          },
        ],
        "key": {
          "id": "00000001-0000-4000-8000-000000000004",
          "key": "key of run 1",
          "points": [
            "ride_created",
            "charge_created",
            "finished",
          ],
          "recovery_point": "finished",
          "scope": "user 7",
          "state": {},
          "status": "finished",
          "stuck_reason": null,
        },
        "provider": [
          {
            "body": {
              "amount": 1800,
              "ride": "00000001-0000-4000-8000-000000000001",
            },
            "method": "POST",
            "path": "/charges",
            "phase": "charge_created",
          },
        ],
        "response": {
          "body": {
            "charge": "ch_00000001-0000-4000-8000-000000000002",
            "id": "00000001-0000-4000-8000-000000000001",
          },
          "headers": {
            "content-type": "application/json",
            "location": "/rides/00000001-0000-4000-8000-000000000001",
          },
          "status": 201,
        },
        "tables": {
          "rides": [
            {
              "charge_id": "ch_00000001-0000-4000-8000-000000000002",
              "created_at": "2026-03-01T13:00:00.005+00:00",
              "id": "00000001-0000-4000-8000-000000000001",
              "key_id": "00000001-0000-4000-8000-000000000004",
              "status": "charged",
            },
          ],
        },
      }
    `)
  })

  test('has rows in the order of their first write, as they are at the end', () => {
    const story = new HistoryBuilder().reserve('client')
    const [a, b, old] = [
      { id: 1, n: 1 },
      { id: 2, n: 1 },
      { id: 9, n: 1 },
    ]
    story.advance(
      'client',
      'ride_created',
      insert('rides', a),
      update('rides', old, { n: 2 }),
      insert('rides', b),
    )
    story.advance('client', PHASE, update('rides', b, { n: 2 }), update('rides', a, { n: 3 }))
    expect(snapshotOf(story.build()).tables).toEqual({
      rides: [
        { id: 1, n: 3 },
        { id: 9, n: 2 },
        { id: 2, n: 2 },
      ],
    })
  })

  test('has older rows that were deleted, and none that were inserted and deleted', () => {
    const story = new HistoryBuilder().reserve('client')
    const [mine, old] = [{ id: 1 }, { id: 9, n: 1 }]
    story.advance('client', 'ride_created', insert('rides', mine), update('rides', old, { n: 2 }))
    story.advance('client', PHASE, remove('rides', mine), remove('rides', { id: 9, n: 2 }))
    expect(snapshotOf(story.build()).tables).toEqual({ '-rides': [old] })
  })

  test('has as many rows as there are, even if they are equal', () => {
    const story = new HistoryBuilder().reserve('client')
    const row = { n: 1 }
    story.advance('client', 'ride_created', insert('rides', row), insert('rides', row))
    expect(snapshotOf(story.advance('client', PHASE, remove('rides', row)).build()).tables).toEqual({
      rides: [row],
    })
  })

  test("includes what the kit does to the case's rows, and leaves out what else it does", () => {
    const story = new HistoryBuilder().reserve('client')
    const row = { id: 1, n: 1 }
    story.advance('client', 'ride_created', insert('rides', row))
    story.commit('kit', update('rides', row, { n: 2 }), insert('rides', { id: 5 }))
    expect(snapshotOf(story.build()).tables).toEqual({ rides: [{ id: 1, n: 2 }] })
  })

  test('has only the last time of a key that was deleted and sent again', () => {
    const story = cleanRide().expire().reap()
    const ride = new Ride(story)
    story.reserve('retry').advance('retry', 'ride_created', insert('rides', ride.row))
    const snapshot = snapshotOf(story.build())
    expect(snapshot.tables).toEqual({ rides: [expect.objectContaining({ id: ride.id })] })
    expect(snapshot).toMatchObject({
      jobs: [],
      effects: [],
      response: null,
      key: { recovery_point: 'ride_created' },
    })
  })

  test('has a deleted key as it last was, with its rows as if it still existed', () => {
    const story = cleanRide().expire()
    const [ride] = snapshotOf(story.build()).tables['rides'] ?? []
    const snapshot = snapshotOf(story.reap('reaper', update('rides', ride as Row, { key_id: null })).build())
    expect(snapshot.key?.status).toBe('finished')
    expect(snapshot.tables['rides']).toEqual([ride])
  })

  test.each([
    ['text that is no JSON', Buffer.from('hello'), 'hello'],
    ['nothing', Buffer.alloc(0), ''],
    ['bytes', Buffer.from([0xff, 0xfe]), '//4='],
  ])('reads a body of %s', (_what, body, expected) => {
    const story = new HistoryBuilder().reserve('client').finish('client', { ...json(200, {}), body })
    expect(snapshotOf(story.build()).response?.body).toBe(expected)
  })
})
