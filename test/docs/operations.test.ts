import type { EventEmitter } from 'node:events'
import { pawlChannels, respond } from '@pawl/core'
import { describe, expect, onTestFinished, test } from 'vitest'
import { SCHEMA_VERSION } from '../../packages/core/src/storage/schema/migrate.js'
import { EXPECTED_INDEXES } from '../../packages/core/src/storage/schema/read-indexes.js'
import { pawlOn } from '../cli/pawl.js'
import { createEngine, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'
import { reference, runbook, sqlIn } from './operations-pages.js'
import { SCOPE, Story } from './operations-story.js'

test('the page lists every version of the tables', () => {
  const section = reference.split('\n## Migrations\n')[1]?.split('\n## ')[0] ?? ''
  const versions = [...section.matchAll(/^\| (\d+) +\|/gm)].map(([, version]) => Number(version))
  expect(versions).toEqual(Array.from({ length: SCHEMA_VERSION }, (_, index) => index + 1))
})

test('the page shows what the server logs when a holder is fenced off', async () => {
  const database = await TestDatabase.create()
  onTestFinished(() => database.drop())
  const refused: { code: string; message: string }[] = []
  const pool = database.pool()
  pool.on('connect', (client) => {
    const { connection } = client as unknown as { connection: EventEmitter }
    connection.on('errorMessage', ({ code, message }) => void refused.push({ code, message }))
  })
  const overtaken = pipeline<null>({ name: 'overtaken', version: 1 })
    .local('late', () => database.rows('UPDATE pawl.idempotency_keys SET fence = fence + 1').then(() => ({})))
    .finish(() => respond(200))
  const engine = createEngine({ pool, schema: database.schema, pipelines: [overtaken] })
  const outcome = await engine.execute(overtaken, { scope: SCOPE, key: 'k', input: null })
  expect(outcome).toMatchObject({ type: 'in_flight', fencedOff: true })
  const [error] = refused
  expect(refused).toHaveLength(1)
  expect(reference).toContain(`\nERROR:  ${error?.message}\n`)
  expect(reference).toContain(`Its SQLSTATE is ${error?.code}.`)
  await engine.close()
})

test('the query for graphs returns the numbers that pawl status reports', async () => {
  const database = await TestDatabase.create()
  onTestFinished(() => database.drop())
  await new Story(database).fill()
  await database.rows(
    `UPDATE pawl.idempotency_keys SET updated_at = updated_at - interval '1 hour', lease_until = lease_until - interval '1 hour'
      WHERE status = 'running'`,
  )
  const [numbers] = await database.rows<Record<string, string>>(sqlIn(runbook, 'What to watch'))
  const status = JSON.parse((await pawlOn(database, 'status', '--json')).out) as {
    stuckBy: { count: number }[]
    oldestUnattended: { sinceMs: number }
    jobs: { dead: { count: number } }
  }
  const stuck = status.stuckBy.reduce((sum, { count }) => sum + count, 0)
  expect(numbers).toMatchObject({
    stuck_keys: String(stuck),
    dead_jobs: String(status.jobs.dead.count),
    oldest_due_job_seconds: null,
  })
  const since = Number(numbers?.['oldest_unattended_seconds'])
  expect(since).toBeGreaterThanOrEqual(3_600)
  expect(since).toBeLessThanOrEqual(status.oldestUnattended.sinceMs / 1_000)
})

describe('the names on the pages', () => {
  test('are channels that exist', () => {
    const named = [...`${runbook}${reference}`.matchAll(/\bpawl:[a-z_]+/g)].map(([name]) => name)
    expect(named.filter((name) => !(pawlChannels as readonly string[]).includes(name))).toEqual([])
    for (const name of [
      'stuck',
      'retried_for_long',
      'refused',
      'round_failed',
      'job_dead',
      'reap_held',
      'warning',
    ])
      expect(runbook).toContain(`| \`pawl:${name}\` `)
  })

  test('include every index', () => {
    expect(EXPECTED_INDEXES.filter((name) => !reference.includes(`\`${name}\``))).toEqual([])
  })
})
