import { respond, retryLater } from '@pawl/core'
import { executeAtomic } from '@pawl/core/internal'
import { afterAll, describe, expect, test } from 'vitest'
import { engineThatFreezesAt } from '../support/crash.js'
import { createEngine, createRideTables, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

const options = () => ({ pool: database.pool(), pipelines: [], schema: database.schema })
const rows = (key: string) => database.rows('SELECT * FROM pawl.idempotency_keys WHERE key = $1', [key])
const audits = (what: string) =>
  database.rows(`SELECT * FROM ${database.businessSchema}.audit WHERE what = $1`, [what])

/** One phase that writes a row, and then does `then`. */
const noteOf = (what: string, then: () => ReturnType<typeof respond> | ReturnType<typeof retryLater>) =>
  pipeline<null>({ name: 'note', version: 1 }).finish(async ({ tx }) => {
    await tx.insertInto('audit').values({ what }).execute()
    return then()
  })

const fail = () => {
  throw new Error('not today')
}

describe('a pipeline that the engine was not given', () => {
  test('runs, and replays for whoever passes one with the same definition', async () => {
    const engine = createEngine(options())
    const request = { scope: 's', key: 'runs', input: null }
    const first = await executeAtomic(
      engine,
      noteOf('runs', () => respond(201, { n: 1 })),
      request,
    )
    const again = await executeAtomic(engine, noteOf('runs', fail), request)
    expect(first).toMatchObject({ type: 'completed' })
    expect(again).toEqual({ ...first, type: 'replayed' })
    expect(await audits('runs')).toHaveLength(1)
    await engine.close()
  })

  test.each([
    ['an exception', fail, 'unknown_error'],
    ['retryLater', () => retryLater(new Error('later')), 'asked_by_phase'],
    ['a response that is not stored', () => respond(503), 'asked_by_phase'],
  ])('leaves no key behind when it fails with %s', async (name, then, reason) => {
    const engine = createEngine(options())
    const request = { scope: 's', key: name, input: null }
    expect(await executeAtomic(engine, noteOf(name, then), request)).toMatchObject({
      type: 'retry_later',
      reason,
    })
    expect(await rows(name)).toEqual([])
    expect(await audits(name)).toEqual([])
    const retried = await executeAtomic(
      engine,
      noteOf(name, () => respond(201)),
      request,
    )
    expect(retried.type).toBe('completed')
    await engine.close()
  })

  test('keeps its key once one of its phases has committed', async () => {
    const engine = createEngine(options())
    const request = { scope: 's', key: 'two phases', input: null }
    let fails = true
    const twoPhases = pipeline<null>({ name: 'two', version: 1 })
      .local('noted', async ({ tx }) => {
        await tx.insertInto('audit').values({ what: 'two phases' }).execute()
      })
      .finish(() => (fails ? fail() : respond(201)))
    await executeAtomic(engine, twoPhases, request)
    expect(await rows('two phases')).toMatchObject([{ recovery_point: 'noted' }])
    fails = false
    await database.expireLeases()
    expect(await executeAtomic(engine, twoPhases, request)).toMatchObject({ type: 'completed' })
    expect(await audits('two phases')).toHaveLength(1)
    await engine.close()
  })

  test('leaves its key to the new holder if it was taken over while it failed', async () => {
    const request = { scope: 's', key: 'taken', input: null }
    const { engine, frozen, wake } = engineThatFreezesAt(options(), 'give_back/forget_key#1:before')
    const zombie = executeAtomic(engine, noteOf('taken', fail), request)
    await frozen
    await database.expireLeases()
    const other = createEngine(options())
    const finished = await executeAtomic(
      other,
      noteOf('taken', () => respond(201)),
      request,
    )
    wake()
    expect(await zombie).toEqual({ ...finished, type: 'replayed' })
    expect(await rows('taken')).toHaveLength(1)
    await Promise.all([engine.close(), other.close()])
  })

  test('cannot be resumed by id after a crash, but a retry of its client finishes it', async () => {
    const request = { scope: 's', key: 'crashed', input: null }
    const { engine: dead, frozen, wake } = engineThatFreezesAt(options(), 'finished/finish_key#1:before')
    const lost = executeAtomic(
      dead,
      noteOf('crashed', () => respond(201)),
      request,
    )
    await frozen
    await database.expireLeases()
    const engine = createEngine(options())
    const [row] = (await rows('crashed')) as { id: string }[]
    expect(await engine.resume(row?.id ?? '')).toMatchObject({ type: 'refused', pipeline: 'note' })
    const retried = await executeAtomic(
      engine,
      noteOf('crashed', () => respond(201)),
      request,
    )
    expect(retried.type).toBe('completed')
    wake()
    expect(await lost).toEqual({ ...retried, type: 'replayed' })
    expect(await audits('crashed')).toHaveLength(1)
    await Promise.all([engine.close(), dead.close()])
  })
})
