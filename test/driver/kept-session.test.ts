import { randomUUID } from 'node:crypto'
import { respond, subscribe } from '@pawl/core'
import { sql } from 'kysely'
import type pg from 'pg'
import { afterAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { createEngine, createRideTables, pipeline } from '../support/rides.js'
import { hear } from '../support/signals.js'
import { TestDatabase } from '../support/test-database.js'

const database = await TestDatabase.create()
await createRideTables(database)
afterAll(() => database.drop())

const request = () => ({ scope: 's', key: randomUUID(), input: null })

/** How many connections were taken from a pool, and how many are checked out at the moment. */
function watch(pool: pg.Pool) {
  const seen = { taken: 0, out: 0 }
  pool.on('acquire', () => {
    seen.taken++
    seen.out++
  })
  pool.on('release', () => void seen.out--)
  return seen
}

const builder = (name: string) => pipeline<null>({ name, version: 1 })

describe('a connection goes from one transaction to the next', () => {
  test('from the reservation to the end, if no call comes in between', async () => {
    const pool = database.pool()
    const seen = watch(pool)
    const local = builder('local')
      .local('one', async ({ tx }) => void (await sql`SELECT ${1}::integer`.execute(tx)))
      .local('two', () => {})
      .finish(() => respond(200))
    const engine = createEngine({ pool, pipelines: [local], schema: database.schema })
    expect((await engine.execute(local, request())).type).toBe('completed')
    expect(seen).toEqual({ taken: 1, out: 0 })
    await engine.close()
  })

  test('but is not held while a provider is called', async () => {
    const pool = database.pool()
    const seen = watch(pool)
    const duringCall: number[] = []
    const paid = builder('paid')
      .local('one', () => {})
      .foreign('two', { call: () => void duringCall.push(seen.out) })
      .finish(() => respond(200))
    const engine = createEngine({ pool, pipelines: [paid], schema: database.schema })
    expect((await engine.execute(paid, request())).type).toBe('completed')
    expect(duringCall).toEqual([0])
    expect(seen).toEqual({ taken: 2, out: 0 })
    await engine.close()
  })

  test('nor while something else needs one, so that a pool of one is enough for everything that a phase can do', async () => {
    const pool = database.pool({ max: 1, connectionTimeoutMillis: 1_000 })
    let fails = true
    const all = builder('all')
      .local('one', () => {})
      .local('skipped', () => {}, { when: () => false })
      .local('two', () => {
        if (!fails) return
        fails = false
        throw new Error('a bug')
      })
      .foreign('three', { guarantee: 'at_most_once', call: () => {} })
      .finish(() => respond(200))
    const engine = createEngine({ pool, pipelines: [all], schema: database.schema })
    const asked = request()
    expect((await engine.execute(all, asked)).type).toBe('retry_later')
    expect((await engine.execute(all, asked)).type).toBe('completed')
    expect([pool.totalCount, pool.idleCount, pool.waitingCount]).toEqual([1, 1, 0])
    await engine.close()
  })

  test('nor while the input of a resumed request is being validated', async () => {
    const pool = database.pool()
    const seen = watch(pool)
    const whileChecked: number[] = []
    const schema = z.null().refine(() => {
      whileChecked.push(seen.out)
      return true
    })
    let fails = true
    const checked = pipeline({ name: 'checked', version: 1, input: schema })
      .local('one', () => {
        if (!fails) return
        fails = false
        throw new Error('a bug')
      })
      .finish(() => respond(200))
    const engine = createEngine({ pool, pipelines: [checked], schema: database.schema })
    const asked = request()
    expect((await engine.execute(checked, asked)).type).toBe('retry_later')
    expect((await engine.execute(checked, asked)).type).toBe('completed')
    expect(new Set(whileChecked)).toEqual(new Set([0]))
    await engine.close()
  })
})

test('a connection that breaks between the reservation and its phase is replaced', async () => {
  const pool = database.pool({ max: 1 })
  let client: (pg.PoolClient & { connection: { stream: { destroy(): void } } }) | null = null
  pool.on('acquire', (taken) => void (client ??= taken as never))
  const local = builder('broken')
    .local('one', async ({ tx }) => void (await sql`SELECT ${1}::integer`.execute(tx)))
    .finish(() => respond(200))
  const engine = createEngine({ pool, pipelines: [local], schema: database.schema })
  const stop = subscribe('pawl:reserved', () => client?.connection.stream.destroy())
  expect((await engine.execute(local, request())).type).toBe('completed')
  stop()
  expect([pool.totalCount, pool.idleCount, pool.waitingCount]).toEqual([1, 1, 0])
  await engine.close()
})

test('a connection to a server that has become read-only is not kept for the next transaction', async () => {
  const pool = database.pool({ max: 1 })
  const pids: unknown[] = []
  const pid = sql<{ pid: number }>`SELECT pg_backend_pid() AS pid, ${1}::integer`
  const local = builder('read-only')
    .local('one', async ({ tx }) => {
      pids.push((await pid.execute(tx)).rows[0]?.pid)
      await sql`SAVEPOINT here`.execute(tx)
      await sql`SET LOCAL transaction_read_only = on`.execute(tx)
      await expect(sql`DELETE FROM audit`.execute(tx)).rejects.toMatchObject({ code: '25006' })
      await sql`ROLLBACK TO here`.execute(tx)
    })
    .local('two', async ({ tx }) => void pids.push((await pid.execute(tx)).rows[0]?.pid))
    .finish(() => respond(200))
  const engine = createEngine({ pool, pipelines: [local], schema: database.schema })
  expect((await engine.execute(local, request())).type).toBe('completed')
  expect(new Set(pids).size).toBe(2)
  await engine.close()
})

test('what a transaction has sent is not attributed to the next', async () => {
  const pool = database.pool({ max: 1 })
  const taken: (pg.PoolClient & { connection: { stream: { destroy(): void } } })[] = []
  pool.on('acquire', (client) => void taken.push(client as never))
  const settled = hear('pawl:commit_settled')
  const retried = hear('pawl:phase_retried')
  let breaks = true
  const local = builder('breaks')
    .local('one', () => {})
    .local('two', async () => {
      const client = taken.at(-1)
      if (!breaks || client === undefined) return
      breaks = false
      client.connection.stream.destroy()
      await new Promise((resolve) => void client.once('end', resolve))
    })
    .finish(() => respond(200))
  const engine = createEngine({ pool, pipelines: [local], schema: database.schema })
  expect((await engine.execute(local, request())).type).toBe('completed')
  expect(retried.map(({ phase }) => phase)).toEqual(['two'])
  // No COMMIT of the second was under way, so there is nothing to find out about it.
  expect(settled).toEqual([])
  await engine.close()
})
