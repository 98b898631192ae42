import { describe, expect, test } from 'vitest'
import { judge } from '../../packages/crash-kit/src/oracle/judge.js'
import type { HistoryBuilder } from './history-builder.js'
import { begun, cleanRide, crashedRide, RIDES } from './ride-histories.js'
import { insert, remove } from './row-changes.js'
import { json, REFUSED } from './sample-outcomes.js'

/** Returns what the rule reports about the story. */
function broken(rule: string, story: HistoryBuilder): string[] {
  return judge(story.build(), RIDES, null)
    .filter((violation) => violation.rule === rule)
    .map(({ detail }) => detail)
}

describe('I1: one row, one holder', () => {
  test('holds for take-overs of leases that are over or given back, and for a holder that raises its own fence', () => {
    expect(broken('I1', crashedRide())).toEqual([])
    expect(broken('I1', begun().story.giveBack('client').takeOver('retry'))).toEqual([])
    expect(broken('I1', begun().story.raise('client'))).toEqual([])
  })

  test('holds for a person who revokes a lease, and for a key that was reaped and sent again', () => {
    expect(broken('I1', begun().story.steer({}))).toEqual([])
    expect(broken('I1', cleanRide().expire().reap().reserve('retry'))).toEqual([])
  })

  test('holds for a lease that was granted by another server, whose clock was ahead of this one', () => {
    const { story } = begun()
    const ahead = { updated_at: story.now(9_000), lease_until: story.now(19_000) }
    expect(broken('I1', story.write('kit', ahead).takeOver('retry'))).toEqual([])
    const inTime = { updated_at: story.now(-1), lease_until: story.now(19_000) }
    expect(broken('I1', begun().story.write('kit', inTime).takeOver('retry'))).toHaveLength(1)
  })

  test('a second row of a key is reported', () => {
    const story = begun().story.reserve('rival')
    expect(broken('I1', story)).toMatchInlineSnapshot(`
      [
        "rival reserved a key that already existed: row 00000001-0000-4000-8000-000000000006 beside row 00000001-0000-4000-8000-000000000004.",
      ]
    `)
  })

  test('a take-over of a live lease is reported', () => {
    expect(broken('I1', begun().story.takeOver('rival'))).toMatchInlineSnapshot(`
      [
        "rival took the key at 'ride_created' (fence 1 → 2) from client, whose lease had 9990 ms left on the database's clock.",
      ]
    `)
  })

  test('a take-over under the same name does not count as a raise', () => {
    expect(broken('I1', begun().story.takeOver('client'))).toHaveLength(1)
  })

  test("raising somebody else's fence is reported", () => {
    expect(broken('I1', begun().story.raise('rival'))).toHaveLength(1)
  })

  test('a take-over of a finished or stuck key is reported', () => {
    expect(broken('I1', cleanRide().takeOver('rival', { lease_until: null }))).toMatchInlineSnapshot(`
      [
        "rival took the key at 'finished' (fence 1 → 2) from client, although it was finished.",
      ]
    `)
    const stuck = begun().story.markStuck('client', 'unknown_outcome')
    expect(broken('I1', stuck.takeOver('rival', { lease_until: null }))).toHaveLength(1)
  })
})

describe('I5: fences', () => {
  test('holds for grants, raises, renewals, people, and a reaper that puts a key off', () => {
    expect(broken('I5', crashedRide())).toEqual([])
    expect(broken('I5', begun().story.renew('client').raise('client').giveBack('client'))).toEqual([])
    expect(broken('I5', begun().story.steer({}).takeOver('retry').renew('retry'))).toEqual([])
    const putOff = cleanRide().expire()
    expect(broken('I5', putOff.write('reaper', { expires_at: putOff.now(9_000) }))).toEqual([])
  })

  test('a key that begins with another fence is reported', () => {
    expect(broken('I5', begun().story.reap('kit').reserve('client', { fence: 2 }))).toEqual([
      'client reserved a key with fence 2.',
    ])
  })

  test('a fence that skips a number or falls is reported', () => {
    const { story } = begun()
    story.expireLease().takeOver('rival', { fence: 3 }).expireLease().takeOver('retry', { fence: 2 })
    expect(broken('I5', story)).toMatchInlineSnapshot(`
      [
        "rival changed the fence at 'ride_created' from 1 to 3.",
        "retry changed the fence at 'ride_created' from 3 to 2.",
      ]
    `)
  })

  test('a fence that is granted twice is reported', () => {
    expect(broken('I5', begun().story.expireLease().takeOver('rival', { fence: 1 }))).toMatchInlineSnapshot(`
      [
        "rival became the holder at 'ride_created' under fence 1, which another holder had.",
      ]
    `)
  })

  test('a holder that stays when the fence grows is reported', () => {
    const { story } = begun()
    const { holder = null } = story.row
    expect(broken('I5', story.expireLease().takeOver('rival', { holder }))).toMatchInlineSnapshot(`
      [
        "rival raised the fence at 'ride_created' to 2 and kept the holder of fence 1.",
      ]
    `)
  })

  test('a zombie that writes under the fence of its successor is reported', () => {
    const { story } = begun()
    story.expireLease().takeOver('retry').advance('client', 'charge_created')
    expect(broken('I5', story)).toMatchInlineSnapshot(`
      [
        "client wrote the row at 'ride_created' (recovery_point, lease_until, attempts, trail), but its fence 2 had been granted to retry.",
      ]
    `)
  })

  test.each(['renew', 'giveBack'] as const)('so is a zombie that writes by %s', (how) => {
    const { story } = begun()
    expect(broken('I5', story.expireLease().takeOver('retry')[how]('client'))).toHaveLength(1)
  })

  test('only the reaper may write a finished row, and only expires_at', () => {
    expect(broken('I5', cleanRide().write('reaper', { expires_at: null, attempts: 7 }))).toHaveLength(1)
    const { story } = begun()
    expect(broken('I5', story.write('reaper', { expires_at: story.now() }))).toHaveLength(1)
  })

  test('a trail whose fences fall is reported', () => {
    const { story } = begun()
    story.expireLease().takeOver('retry').advance('retry', 'charge_created')
    const trail = [
      { p: 'ride_created', t: 1, f: 2 },
      { p: 'charge_created', t: 2, f: 2 },
      { p: 'finished', t: 3, f: 1 },
    ]
    expect(broken('I5', story.write('retry', { recovery_point: 'finished', trail }))).toMatchInlineSnapshot(`
      [
        "retry left a trail with fences 2 ('ride_created'), 2 ('charge_created'), 1 ('finished') on a row with fence 2.",
      ]
    `)
  })
})

describe('I6: recovery points', () => {
  test('holds phase by phase, for a skipped phase, and for a response before the end', () => {
    expect(broken('I6', cleanRide())).toEqual([])
    expect(broken('I6', begun().story.skip('client', 'charge_created'))).toEqual([])
    expect(broken('I6', begun().story.finish('client', json(402, {})))).toEqual([])
  })

  test('a step back is reported', () => {
    const { story } = begun()
    story.advance('client', 'charge_created').write('client', { recovery_point: 'ride_created' })
    expect(broken('I6', story)).toMatchInlineSnapshot(`
      [
        "client moved the key from 'charge_created' to 'ride_created' under fence 1, which is backwards.",
      ]
    `)
  })

  test('a point that is not in the pipeline is reported', () => {
    expect(broken('I6', begun().story.advance('client', 'ride_paid'))).toMatchInlineSnapshot(`
      [
        "client moved the key from 'ride_created' to 'ride_paid' under fence 1, which is not a point of the pipeline.",
      ]
    `)
  })

  test('a phase that is left out is reported', () => {
    const story = cleanRide().reap('kit').reserve('client')
    expect(broken('I6', story.advance('client', 'charge_created'))).toMatchInlineSnapshot(`
      [
        "client moved the key from 'started' to 'charge_created' under fence 1, but added 'charge_created' to the trail.",
      ]
    `)
  })

  test('a trail that lost, changed or lacks an entry is reported', () => {
    expect(broken('I6', begun().story.write('client', { trail: [] }))).toMatchInlineSnapshot(`
      [
        "client changed the trail of the key at 'ride_created': 'ride_created' became nothing.",
      ]
    `)
    const changed = [{ p: 'ride_created', t: 0, f: 1 }]
    expect(broken('I6', begun().story.write('client', { trail: changed }))).toHaveLength(1)
    expect(broken('I6', begun().story.write('client', { recovery_point: 'charge_created' })))
      .toMatchInlineSnapshot(`
        [
          "client moved the key from 'ride_created' to 'charge_created' under fence 1, but added nothing to the trail.",
        ]
      `)
    expect(broken('I6', begun().story.write('client', { recovery_point: 'finished' }))).toHaveLength(1)
  })

  test('a trail with phases that were not next is reported, also with a response before the end', () => {
    const { story } = begun()
    const trail = [
      ...(story.row['trail'] as []),
      { p: 'ride_created', t: 9, f: 1 },
      { p: 'finished', t: 9, f: 1 },
    ]
    expect(broken('I6', story.write('client', { recovery_point: 'finished', trail }))).toHaveLength(1)
  })
})

describe('I9: the reaper', () => {
  test('holds for a finished and expired key, and for what the kit deletes', () => {
    expect(broken('I9', cleanRide().expire().reap())).toEqual([])
    expect(broken('I9', begun().story.reap('kit'))).toEqual([])
  })

  test('a running key that is deleted is reported', () => {
    const { story } = begun()
    expect(broken('I9', story.write('kit', { expires_at: story.now(-1) }).reap())).toHaveLength(1)
    expect(broken('I9', begun().story.reap())).toMatchInlineSnapshot(`
      [
        "reaper deleted the key at 'ride_created' under fence 1, which was running.",
      ]
    `)
  })

  test('a finished key that is deleted too early is reported', () => {
    expect(broken('I9', cleanRide().reap())).toMatchInlineSnapshot(`
      [
        "reaper deleted the finished key 00000001-0000-4000-8000-000000000004, which was to be kept for 86399985 ms more.",
      ]
    `)
    expect(broken('I9', cleanRide().write('kit', { expires_at: null }).reap())).toHaveLength(1)
  })
})

const deleted = (story: HistoryBuilder) => {
  const effect = { id: story.id(), key_id: story.keyId, phase: 'charge_created' }
  return story.commit('eraser', { ...remove('effects', effect), framework: true })
}

describe('I9: effects on record', () => {
  test('may be deleted once their key is finished, or gone', () => {
    expect(broken('I9', deleted(cleanRide()))).toEqual([])
    const story = cleanRide()
    const id = story.keyId
    story
      .expire()
      .reap()
      .commit('eraser', { ...remove('effects', { key_id: id }), framework: true })
    expect(broken('I9', story)).toEqual([])
  })

  test('of an unfinished key that are deleted are reported', () => {
    expect(broken('I9', deleted(begun().story))).toMatchInlineSnapshot(`
      [
        "eraser deleted the effect of 'charge_created', while its key was running at 'ride_created' under fence 1.",
      ]
    `)
    expect(broken('I9', deleted(begun().story.markStuck('client', 'unknown_outcome')))).toHaveLength(1)
  })
})

describe('I10: versions', () => {
  test('holds for an actor that is refused and writes nothing, or wrote in another execution', () => {
    expect(broken('I10', begun().story.returnTo('next version', REFUSED, { disturbed: true }))).toEqual([])
    const twice = cleanRide().returnTo('client', REFUSED, { disturbed: true, execution: 4 })
    expect(broken('I10', twice)).toEqual([])
    const { story } = begun()
    story.returnTo('client', story.retryLater()).returnTo('client', REFUSED, { execution: 4 })
    expect(broken('I10', story)).toEqual([])
    const called = begun()
      .story.call('client', 'charge_created')
      .returnTo('client', REFUSED, { execution: 4 })
    expect(broken('I10', called)).toEqual([])
  })

  test('a running row that changes its version or definition is reported', () => {
    expect(broken('I10', begun().story.giveBack('client').takeOver('retry', { version: 2 })))
      .toMatchInlineSnapshot(`
      [
        "retry changed the row at 'ride_created' from version 1 (0123456789abcdef) to version 2 (0123456789abcdef).",
      ]
    `)
    const other = begun().story.giveBack('client').takeOver('retry', { definition_hash: 'fedcba9876543210' })
    expect(broken('I10', other)).toHaveLength(1)
  })

  test('an actor that is refused and writes is reported', () => {
    const { story } = begun()
    story
      .giveBack('client')
      .write('next version', { attempts: 5 }, insert('rides', { id: 1 }), insert('rides', { id: 2 }))
    expect(broken('I10', story.returnTo('next version', REFUSED, { disturbed: true })))
      .toMatchInlineSnapshot(`
        [
          "next version was refused, but wrote: INSERT rides (2 rows), UPDATE idempotency_keys.",
        ]
      `)
  })
})

describe('L1: every key ends', () => {
  test('holds for keys that have finished, are stuck, or are gone', () => {
    expect(broken('L1', cleanRide())).toEqual([])
    expect(broken('L1', begun().story.markStuck('client', 'unknown_outcome'))).toEqual([])
    expect(broken('L1', begun().story.reap('kit'))).toEqual([])
  })

  test('a key that is left running is reported', () => {
    expect(broken('L1', begun().story)).toMatchInlineSnapshot(`
      [
        "The key 00000001-0000-4000-8000-000000000004 was left running, at 'ride_created' under fence 1.",
      ]
    `)
  })

  test('a completer that does not end the key is reported', () => {
    expect(broken('L1', cleanRide().rounds(null))).toMatchInlineSnapshot(`
      [
        "The completer did not end the key in the rounds it had.",
      ]
    `)
  })
})
