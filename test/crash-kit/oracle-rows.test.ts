import { describe, expect, test } from 'vitest'
import { type CleanRun, cleanRunOf } from '../../packages/crash-kit/src/oracle/clean-run.js'
import { judge } from '../../packages/crash-kit/src/oracle/judge.js'
import type { HistoryBuilder } from './history-builder.js'
import { begun, cleanRide, crashedRide, RIDES } from './ride-histories.js'
import { insert, insertOwn, remove, update } from './row-changes.js'
import { json } from './sample-outcomes.js'

/** Returns what the rule reports about the story. */
function broken(rule: string, story: HistoryBuilder, clean: CleanRun | null = null): string[] {
  return judge(story.build(), RIDES, clean)
    .filter((violation) => violation.rule === rule)
    .map(({ detail }) => detail)
}

const learn = (ignore: string[] = []) => cleanRunOf(cleanRide(1).build(), cleanRide(2).build(), ignore)

const complaintsOfReaping = (change: (story: HistoryBuilder) => ReturnType<typeof insert>) => {
  const story = cleanRide().expire()
  return broken('I15', story.reap('reaper', change(story)))
}

const referringRow = (story: HistoryBuilder) => ({ id: 1, key_id: story.keyId, status: 'charged' })

const unevenRide = (run: number) => {
  const { story, row } = begun(run)
  return story.settle('client', 'charge_created', ...(run === 1 ? [update('rides', row, {})] : []))
}

describe('I4: rows and recovery point together', () => {
  const clean = learn()

  test('holds for each phase, and for what the kit itself does', () => {
    expect(broken('I4', crashedRide(), clean)).toEqual([])
    expect(broken('I4', crashedRide().commit('kit', insert('rides', { id: 1 })), clean)).toEqual([])
  })

  test('a transaction that moves two keys is reported', () => {
    const { story } = begun()
    const other = { ...story.row, id: story.id(), key: 'another', recovery_point: 'started' }
    const moved = {
      ...update('idempotency_keys', other, { recovery_point: 'ride_created' }),
      framework: true,
    }
    expect(broken('I4', story.settle('client', 'charge_created', insert('rides', { id: 1 }), moved)))
      .toMatchInlineSnapshot(`
      [
        "client wrote business rows in a transaction that moved 2 keys: INSERT rides.",
      ]
    `)
  })

  test('a recovery point without the rows of its phase is reported', () => {
    const story = begun(3).story.settle('client', 'charge_created')
    expect(broken('I4', story)).toEqual([])
    expect(broken('I4', story, clean)).toMatchInlineSnapshot(`
      [
        "client moved the key from 'ride_created' to 'charge_created' under fence 1 and wrote no business rows; the clean run wrote UPDATE rides (1).",
      ]
    `)
  })

  test('a row too many, or another operation, is reported', () => {
    const { story, row } = begun(3)
    story.settle('client', 'charge_created', update('rides', row, {}), insert('audits', { id: 1 }))
    expect(broken('I4', story, clean)).toHaveLength(1)
    const deleting = begun(3)
    deleting.story.settle('client', 'charge_created', remove('rides', deleting.row))
    expect(broken('I4', deleting.story, clean)).toHaveLength(1)
  })

  test('a phase that skipped what it did in the clean run is reported', () => {
    expect(broken('I4', begun(3).story.skip('client', 'charge_created'), clean)).toHaveLength(1)
  })

  test('a response that the clean run did not have is not compared', () => {
    const { story, row } = begun(3)
    story.finish('client', json(402, {}), update('rides', row, { status: 'declined' }))
    expect(broken('I4', story, clean)).toEqual([])
  })

  test('rows of an ignored table are not counted', () => {
    const { story, row } = begun(3)
    story.settle('client', 'charge_created', update('rides', row, {}), update('rides', row, {}))
    expect(broken('I4', story, clean)).toHaveLength(1)
    expect(broken('I4', story, learn(['tables.rides']))).toEqual([])
    expect(broken('I4', story, learn(['tables']))).toEqual([])
  })

  test('a phase in which the clean runs differ is not compared', () => {
    const uneven = cleanRunOf(unevenRide(1).build(), unevenRide(2).build(), [])
    expect(broken('I4', unevenRide(2), uneven)).toEqual([])
  })

  test('a call that was settled without a record of its effect is reported', () => {
    const { story, row } = begun(3)
    story.advance('client', 'charge_created', update('rides', row, {}))
    expect(broken('I4', story)).toMatchInlineSnapshot(`
      [
        "client moved the key past 'charge_created' under fence 1, and recorded no effect of its call.",
      ]
    `)
    expect(broken('I4', begun(3).story.skip('client', 'charge_created'))).toEqual([])
  })

  test('what a person does is not compared with a phase', () => {
    const story = begun(3).story.markStuck('client', 'unknown_outcome')
    story.steer({ recovery_point: 'charge_created', status: 'running', stuck_reason: null })
    expect(broken('I4', story, clean)).toEqual([])
  })
})

describe('I15: each statement in its transaction', () => {
  test('holds for each phase, and for what the kit itself does', () => {
    expect(broken('I15', crashedRide())).toEqual([])
    expect(broken('I15', crashedRide().commit('kit', insert('rides', { id: 1 })))).toEqual([])
  })

  test('rows of a transaction that moves no recovery point are reported', () => {
    expect(broken('I15', begun().story.commit('client', insert('rides', { id: 1 })))).toMatchInlineSnapshot(`
      [
        "client wrote INSERT rides in transaction 702, which moved no recovery point (these did: 701).",
      ]
    `)
    expect(
      broken('I15', begun().story.write('client', { attempts: 2 }, insert('rides', { id: 1 }))),
    ).toHaveLength(1)
  })

  test('they are reported even if a later phase writes the same row again', () => {
    const { story } = begun()
    const row = { id: 1, amount: 1 }
    story.commit('client', insert('rides', row))
    story.advance('client', 'charge_created', update('rides', row, { amount: 2 }))
    expect(broken('I15', story)).toHaveLength(1)
  })

  test('rows that the database itself changes when a key is deleted are not reported', () => {
    expect(complaintsOfReaping((story) => update('rides', referringRow(story), { key_id: null }))).toEqual([])
    expect(complaintsOfReaping((story) => remove('rides', referringRow(story)))).toEqual([])
    expect(
      complaintsOfReaping((story) => update('rides', referringRow(story), { key_id: null, status: 'lost' })),
    ).toHaveLength(1)
    expect(
      complaintsOfReaping((story) => update('rides', referringRow(story), { key_id: null, status: null })),
    ).toHaveLength(1)
    expect(
      complaintsOfReaping((story) => update('rides', referringRow(story), { key_id: 'another' })),
    ).toHaveLength(1)
    expect(complaintsOfReaping(() => remove('rides', { id: 2, key_id: 'another' }))).toHaveLength(1)
  })

  test('effects count as rows of a phase', () => {
    const { story } = begun()
    expect(broken('I15', story.commit('client', insertOwn('effects', { id: story.id() })))).toHaveLength(1)
  })
})

const receiptOf = (story: HistoryBuilder) => ({
  id: story.id(),
  name: 'send_receipt',
  payload: {},
  key_id: story.keyId,
})

/** A ride whose job is staged with the charge. */
function staged() {
  const { story } = begun()
  const row = receiptOf(story)
  story.advance('client', 'charge_created', insertOwn('staged_jobs', row))
  return { story, row, id: row.id }
}
const deleted = (row: ReturnType<typeof receiptOf>) => ({ ...remove('staged_jobs', row), framework: true })

describe('I13: staged jobs', () => {
  test('holds for a job that is staged with its phase and delivered, even twice', () => {
    const { story, row, id } = staged()
    story.deliver(id, 'send_receipt').deliver(id, 'send_receipt').commit('relay', deleted(row))
    expect(broken('I13', story)).toEqual([])
  })

  test('a job that is staged outside a phase, or for another key, is reported', () => {
    const { story } = begun()
    const row = receiptOf(story)
    story.commit('client', insertOwn('staged_jobs', row)).deliver(row.id, 'send_receipt')
    expect(broken('I13', story)).toMatchInlineSnapshot(`
      [
        "client staged send_receipt (00000001-0000-4000-8000-000000000006) in a transaction that did not move the key 00000001-0000-4000-8000-000000000004.",
      ]
    `)
    const other = begun().story
    const foreign = { ...receiptOf(other), key_id: 'another' }
    other
      .advance('client', 'charge_created', insertOwn('staged_jobs', foreign))
      .deliver(foreign.id, 'send_receipt')
    expect(broken('I13', other)).toHaveLength(1)
  })

  test('a job that is never delivered is reported', () => {
    expect(broken('I13', staged().story)).toMatchInlineSnapshot(`
      [
        "The job send_receipt (00000001-0000-4000-8000-000000000006) was staged, but never delivered.",
      ]
    `)
  })

  test('a job that is deleted before it was delivered is reported', () => {
    const { story, row } = staged()
    expect(broken('I13', story.commit('relay', deleted(row)))).toMatchInlineSnapshot(`
      [
        "The job send_receipt (00000001-0000-4000-8000-000000000006) was staged, but relay deleted it before it was delivered.",
      ]
    `)
  })

  test('a delivery of a job that no phase staged, or under another name, is reported', () => {
    expect(broken('I13', begun().story.deliver('j1', 'send_receipt'))).toMatchInlineSnapshot(`
      [
        "The job send_receipt (j1) was delivered, but no committed phase staged it.",
      ]
    `)
    const { story, id } = staged()
    expect(broken('I13', story.deliver(id, 'send_invoice'))).toMatchInlineSnapshot(`
      [
        "The job send_invoice (00000001-0000-4000-8000-000000000006) was delivered, but it was staged as send_receipt.",
      ]
    `)
  })

  test('jobs that the kit writes are not checked', () => {
    const { story } = begun()
    expect(broken('I13', story.commit('kit', insertOwn('staged_jobs', receiptOf(story))))).toEqual([])
  })
})

describe('I14: nothing left', () => {
  test('holds when nothing is left over', () => {
    expect(broken('I14', cleanRide())).toEqual([])
  })

  test('connections, transactions and rejections that are left over are reported', () => {
    const story = cleanRide().leave({
      lostClients: [{ actor: 'client', total: 3, idle: 1 }],
      openTransactions: [{ actor: 'retry', query: 'UPDATE rides SET charge_id = $1' }],
      unhandledRejections: [new TypeError('x is undefined'), { code: 7 }],
    })
    expect(broken('I14', story)).toMatchInlineSnapshot(`
      [
        "2 of 3 connections of client did not come back to their pool.",
        "A session of retry was left in a transaction, after: UPDATE rides SET charge_id = $1",
        "A promise was rejected and nobody handled it: TypeError: x is undefined",
        "A promise was rejected and nobody handled it: { code: 7 }",
      ]
    `)
  })
})
