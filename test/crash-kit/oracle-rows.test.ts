import { describe, expect, test } from 'vitest'
import { type CleanRun, cleanRunOf } from '../../packages/crash-kit/src/oracle/clean-run.js'
import { judge } from '../../packages/crash-kit/src/oracle/judge.js'
import {
  begun,
  cleanRide,
  crashedRide,
  type HistoryBuilder,
  insert,
  json,
  note,
  remove,
  RIDES,
  update,
} from './history-builder.js'

/** What the rule says of the story. */
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
  return story.advance('client', 'charge_created', ...(run === 1 ? [update('rides', row, {})] : []))
}

describe('I4: rows and recovery point together', () => {
  const clean = learn()

  test('holds for each phase, and for what the kit itself does', () => {
    expect(broken('I4', crashedRide(), clean)).toEqual([])
    expect(broken('I4', crashedRide().commit('kit', insert('rides', { id: 1 })), clean)).toEqual([])
  })

  test('a transaction that moves two keys is seen', () => {
    const { story } = begun()
    const other = { ...story.row, id: story.id(), key: 'another', recovery_point: 'started' }
    const moved = {
      ...update('idempotency_keys', other, { recovery_point: 'ride_created' }),
      framework: true,
    }
    expect(broken('I4', story.advance('client', 'charge_created', insert('rides', { id: 1 }), moved)))
      .toMatchInlineSnapshot(`
      [
        "client wrote business rows in a transaction that moved 2 keys: INSERT rides.",
      ]
    `)
  })

  test('a recovery point without the rows of its phase is seen', () => {
    const story = begun(3).story.advance('client', 'charge_created')
    expect(broken('I4', story)).toEqual([])
    expect(broken('I4', story, clean)).toMatchInlineSnapshot(`
      [
        "client moved the key from 'ride_created' to 'charge_created' under fence 1 and wrote no business rows; the clean run wrote UPDATE rides (1).",
      ]
    `)
  })

  test('a row too many is seen, and so is another operation', () => {
    const { story, row } = begun(3)
    story.advance('client', 'charge_created', update('rides', row, {}), insert('audits', { id: 1 }))
    expect(broken('I4', story, clean)).toHaveLength(1)
    const deleting = begun(3)
    deleting.story.advance('client', 'charge_created', remove('rides', deleting.row))
    expect(broken('I4', deleting.story, clean)).toHaveLength(1)
  })

  test('a phase that skipped what it did in the clean run is seen', () => {
    expect(broken('I4', begun(3).story.skip('client', 'charge_created'), clean)).toHaveLength(1)
  })

  test('a response that the clean run did not give is compared with nothing', () => {
    const { story, row } = begun(3)
    story.finish('client', json(402, {}), update('rides', row, { status: 'declined' }))
    expect(broken('I4', story, clean)).toEqual([])
  })

  test('a table that is ignored is not counted', () => {
    const { story, row } = begun(3)
    story.advance('client', 'charge_created', update('rides', row, {}), update('rides', row, {}))
    expect(broken('I4', story, clean)).toHaveLength(1)
    expect(broken('I4', story, learn(['tables.rides']))).toEqual([])
    expect(broken('I4', story, learn(['tables']))).toEqual([])
  })

  test('a phase in which clean runs differ is not counted', () => {
    const uneven = cleanRunOf(unevenRide(1).build(), unevenRide(2).build(), [])
    expect(broken('I4', unevenRide(2), uneven)).toEqual([])
  })

  test('what a person does is compared with no phase', () => {
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

  test('rows of a transaction that moves no recovery point are seen', () => {
    expect(broken('I15', begun().story.commit('client', insert('rides', { id: 1 })))).toMatchInlineSnapshot(`
      [
        "client wrote INSERT rides in transaction 702, which moved no recovery point (these did: 701).",
      ]
    `)
    expect(
      broken('I15', begun().story.write('client', { attempts: 2 }, insert('rides', { id: 1 }))),
    ).toHaveLength(1)
  })

  test('also where a later phase writes the same row again', () => {
    const { story } = begun()
    const row = { id: 1, amount: 1 }
    story.commit('client', insert('rides', row))
    story.advance('client', 'charge_created', update('rides', row, { amount: 2 }))
    expect(broken('I15', story)).toHaveLength(1)
  })

  test('rows that follow a key that is deleted are the database at work', () => {
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

  test('effects are rows of a phase, too', () => {
    const { story } = begun()
    expect(broken('I15', story.commit('client', note('effects', { id: story.id() })))).toHaveLength(1)
  })
})

const receiptOf = (story: HistoryBuilder) => ({
  id: story.id(),
  name: 'send_receipt',
  payload: {},
  key_id: story.keyId,
})

/** Staged with the charge. */
function staged() {
  const { story } = begun()
  const row = receiptOf(story)
  story.advance('client', 'charge_created', note('staged_jobs', row))
  return { story, row, id: row.id }
}
const deleted = (row: ReturnType<typeof receiptOf>) => ({ ...remove('staged_jobs', row), framework: true })

describe('I13: staged jobs', () => {
  test('holds for a job that is staged with its phase and delivered, also twice', () => {
    const { story, row, id } = staged()
    story.deliver(id, 'send_receipt').deliver(id, 'send_receipt').commit('relay', deleted(row))
    expect(broken('I13', story)).toEqual([])
  })

  test('a job that is staged outside of a phase, or for another key, is seen', () => {
    const { story } = begun()
    const row = receiptOf(story)
    story.commit('client', note('staged_jobs', row)).deliver(row.id, 'send_receipt')
    expect(broken('I13', story)).toMatchInlineSnapshot(`
      [
        "client staged send_receipt (00000001-0000-4000-8000-000000000006) in a transaction that did not move the key 00000001-0000-4000-8000-000000000004.",
      ]
    `)
    const other = begun().story
    const foreign = { ...receiptOf(other), key_id: 'another' }
    other
      .advance('client', 'charge_created', note('staged_jobs', foreign))
      .deliver(foreign.id, 'send_receipt')
    expect(broken('I13', other)).toHaveLength(1)
  })

  test('a job that is never delivered is seen', () => {
    expect(broken('I13', staged().story)).toMatchInlineSnapshot(`
      [
        "The job send_receipt (00000001-0000-4000-8000-000000000006) was staged, and was never delivered.",
      ]
    `)
  })

  test('a job that is deleted and was never delivered is seen', () => {
    const { story, row } = staged()
    expect(broken('I13', story.commit('relay', deleted(row)))).toMatchInlineSnapshot(`
      [
        "The job send_receipt (00000001-0000-4000-8000-000000000006) was staged, and relay deleted it before it was delivered.",
      ]
    `)
  })

  test('a delivery of a job that no phase staged, or of another name, is seen', () => {
    expect(broken('I13', begun().story.deliver('j1', 'send_receipt'))).toMatchInlineSnapshot(`
      [
        "The job send_receipt (j1) was delivered, and no committed phase staged it.",
      ]
    `)
    const { story, id } = staged()
    expect(broken('I13', story.deliver(id, 'send_invoice'))).toMatchInlineSnapshot(`
      [
        "The job send_invoice (00000001-0000-4000-8000-000000000006) was delivered, and it was staged as send_receipt.",
      ]
    `)
  })

  test('jobs of the kit are its own', () => {
    const { story } = begun()
    expect(broken('I13', story.commit('kit', note('staged_jobs', receiptOf(story))))).toEqual([])
  })
})

describe('I14: nothing left', () => {
  test('holds when all came back', () => {
    expect(broken('I14', cleanRide())).toEqual([])
  })

  test('connections, transactions and rejections that are left are seen', () => {
    const story = cleanRide().leave({
      lostClients: [{ actor: 'client', total: 3, idle: 1 }],
      openTransactions: [{ actor: 'retry', query: 'UPDATE rides SET charge_id = $1' }],
      unhandledRejections: [new TypeError('x is undefined'), { code: 7 }],
    })
    expect(broken('I14', story)).toMatchInlineSnapshot(`
      [
        "2 of 3 connections of client did not come back to their pool.",
        "A session of retry was left in a transaction, after: UPDATE rides SET charge_id = $1",
        "A promise was rejected and nobody heard: TypeError: x is undefined",
        "A promise was rejected and nobody heard: { code: 7 }",
      ]
    `)
  })
})
