import { randomUUID } from 'node:crypto'
import type { EventEmitter } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { absent, createBackground, type Engine, migrate, pawlChannels, respond, retryLater } from '@pawl/core'
import { executeAtomic } from '@pawl/core/internal'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { decideReservation } from '../../packages/core/src/request/decide-reservation.js'
import { judgeDurability } from '../../packages/core/src/operate/judge-server.js'
import { definitionOf } from '../../packages/core/src/pipeline/pipeline.js'
import { Registry } from '../../packages/core/src/pipeline/registry.js'
import { ResolvedSettings } from '../../packages/core/src/pipeline/resolved-settings.js'
import { nextStep } from '../../packages/core/src/run/next-step.js'
import { EXPECTED_INDEXES } from '../../packages/core/src/storage/schema/read-indexes.js'
import type { Intent, KeyRow } from '../../packages/core/src/storage/keys/key-row.js'
import { SCHEMA_VERSION } from '../../packages/core/src/storage/schema/migrate.js'
import { buryJobs } from '../cli/filled-database.js'
import { type End, pawl, pawlOn } from '../cli/pawl.js'
import { dieAt } from '../support/die-at.js'
import { createEngine, type Database, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

/**
 * Each page is a session at a terminal: its commands are run here one after the other, and print what it shows, times
 * and ids apart.
 */
const runbook = await readFile(new URL('../../docs/operations.md', import.meta.url), 'utf8')
const reference = await readFile(new URL('../../docs/operations-reference.md', import.meta.url), 'utf8')

const SCOPE = 'rider-7'
const DAY_MS = 86_400_000

interface Trip {
  readonly trip: number
}
interface Charge {
  readonly id: string
  readonly idempotencyKey: string
  readonly at: Date
}

/** The provider, and what is wrong at the moment. */
class World {
  readonly charges = new Map<string, Charge>()
  faxes = 0
  hasBug = false
  provider: 'well' | 'away' | 'asks for patience' = 'well'

  charge({ trip }: Trip, idempotencyKey: string): { readonly id: string } {
    if (this.provider === 'away') throw new Error('connect ETIMEDOUT 10.0.0.7:443')
    const charge = this.charges.get(idempotencyKey) ?? { id: `ch_${trip}`, idempotencyKey, at: new Date() }
    this.charges.set(idempotencyKey, charge)
    if (this.provider === 'asks for patience') throw new Error('answer got lost; provider in maintenance')
    return { id: charge.id }
  }
}

const createRideOf = (world: World) =>
  pipeline<Trip>({ name: 'create-ride', version: 2 })
    .local('ride_created', () => ({ rideId: 'r' }))
    .foreign('charge_created', {
      call: ({ input, idempotencyKey }) => world.charge(input, idempotencyKey),
      settle: ({ result }) => ({ chargeId: result.id }),
      reference: (result) => result.id,
      onError: ({ error }) =>
        retryLater(error, world.provider === 'asks for patience' ? { afterMs: DAY_MS } : {}),
    })
    .local('seat_taken', () => {
      if (world.hasBug) throw new TypeError("Cannot read properties of undefined (reading 'seat')")
    })
    .finish(async ({ input, stage }) => {
      await stage('send_receipt', { trip: input.trip })
      return respond(201, { trip: input.trip })
    })

const faxPermitOf = (world: World) =>
  pipeline<Trip>({ name: 'fax-permit', version: 1 })
    .foreign('permit_faxed', {
      guarantee: 'at_most_once',
      call: (): { id: string } => {
        world.faxes++
        throw new Error('line broke after 2 of 3 pages')
      },
      settle: ({ result }) => ({ faxId: result.id }),
      reference: (result) => result.id,
    })
    .finish(({ state }) => respond(201, { fax: state.faxId }))

/** A database with a key of every kind that a person meets. */
class Story {
  readonly world = new World()
  readonly createRide = createRideOf(this.world)
  readonly faxPermit = faxPermitOf(this.world)
  readonly #database: TestDatabase

  constructor(database: TestDatabase) {
    this.#database = database
  }

  engine(): Engine<Database> {
    return createEngine({ ...this.#options(), pool: this.#database.pool(), schema: this.#database.schema })
  }

  async fill(): Promise<void> {
    const { world, createRide, faxPermit } = this
    const engine = this.engine()
    const ride = (trip: number) => ({ scope: SCOPE, key: `ride-${trip}`, input: { trip } })
    await engine.execute(createRide, ride(1001))
    await buryJobs(engine, '550 mailbox unavailable')

    world.hasBug = true
    while ((await engine.execute(createRide, ride(1002))).type !== 'stuck');
    world.hasBug = false

    world.provider = 'away'
    await engine.execute(createRide, ride(1003))
    await this.#age('ride-1003', '23.5 hours')
    await this.#resume(engine, 'ride-1003')
    world.provider = 'well'

    await engine.enqueue(createRide, ride(1004))
    await this.#age('ride-1004', '25 hours')
    await this.#resume(engine, 'ride-1004')

    await engine.execute(faxPermit, { scope: SCOPE, key: 'permit-1005', input: { trip: 1005 } })

    await dieAt(this.#database, this.#options(), 'charge_created/call#1:after', (doomed) =>
      doomed.execute(createRide, ride(1006)),
    )

    world.provider = 'asks for patience'
    await engine.execute(createRide, ride(1007))
    world.provider = 'well'
    await engine.close()
  }

  /** What a completer somewhere does meanwhile. */
  async complete(): Promise<void> {
    const engine = this.engine()
    await createBackground({ engine, reaper: false }).runOnce()
    await engine.close()
  }

  #options() {
    return { pipelines: [this.createRide, this.faxPermit] }
  }

  async #age(key: string, by: string): Promise<void> {
    await this.#database.rows(
      `UPDATE pawl.idempotency_keys
          SET created_at = created_at - $2::interval, updated_at = updated_at - $2::interval,
              trail = coalesce((SELECT jsonb_agg(e || jsonb_build_object('t', (e ->> 't')::bigint - (extract(epoch FROM $2::interval) * 1000)::bigint))
                         FROM jsonb_array_elements(trail) AS e), trail)
        WHERE key = $1`,
      [key, by],
    )
  }

  async #resume(engine: Engine<Database>, key: string): Promise<void> {
    const view = await engine.inspect(SCOPE, key)
    expect(await engine.resume(view?.keyId ?? '')).toMatchObject({ type: 'stuck' })
  }
}

/** One command of the page, with what it shows. */
interface Shown {
  readonly command: string
  readonly output: string
}

function shownCommands(page: string): Shown[] {
  const blocks = [...page.matchAll(/^```console\n(.*?)^```$/gms)].map(([, block = '']) => block)
  return blocks.flatMap((block) =>
    block
      .split(/^\$ /m)
      .slice(1)
      .map((part) => {
        const end = part.indexOf('\n')
        return { command: part.slice(0, end), output: part.slice(end + 1) }
      }),
  )
}

/** As a shell splits them; single quotes are all that the page uses. */
function words(command: string): string[] {
  return [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '')
}

/** Without what is another one in every run, and without what the server at hand is like. */
function normalised(text: string, schema = 'pawl'): string {
  return text
    .replaceAll(` --schema ${schema}`, '')
    .replaceAll(schema, 'pawl')
    .replaceAll(/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, 'ID')
    .replaceAll(/\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:Z|\.\d{3})/g, 'MOMENT')
    .replaceAll(/\([0-9a-f]{16}\)/g, '(HASH)')
    .replaceAll(/\+?\b(?:[\d.]+(?:ms|[smhd])\b ?)+/g, 'SPAN ')
    .replaceAll(/\bpawl_[\w-]{20,}/g, 'PROVIDER_KEY')
    .replaceAll(
      /^(?:ok|warning|error) +(?:server|path|durability|clock|pool|timeouts|bloat) .*\n(?: +→ .*\n)?/gm,
      '',
    )
    .replaceAll(/ +/g, ' ')
    .replaceAll(/ $/gm, '')
}

/** A day from today, as people write it. */
const day = (offset: number): string => new Date(Date.now() + offset * DAY_MS).toISOString().slice(0, 10)

describe('the session of each page', () => {
  let database: TestDatabase
  let story: Story
  let folder: string
  beforeEach(async () => {
    database = await TestDatabase.create()
    story = new Story(database)
    await story.fill()
    folder = await mkdtemp(join(tmpdir(), 'pawl-operations-'))
  })
  afterEach(async () => {
    await database.drop()
    await rm(folder, { recursive: true })
  })

  /** The provider's list as the page's module returns it; one charge was made by hand. */
  async function chargesModule(): Promise<string> {
    const path = join(folder, 'charges.mjs')
    const byHand = { id: 'ch_by_hand', at: new Date() }
    const records = [...story.world.charges.values(), byHand].map(({ id, at }) => ({ reference: id, at }))
    const revived = `${JSON.stringify(records)}.map((each) => ({ ...each, at: new Date(each.at) }))`
    await writeFile(path, `export const effects = ['charge_created']\nexport default () => ${revived}\n`)
    return path
  }

  async function pawlCommand(argv: string[]): Promise<End> {
    if (argv[0] !== 'reconcile') return pawlOn(database, ...argv)
    return pawlOn(database, 'reconcile', await chargesModule(), '--from', day(-1), '--to', day(2))
  }

  async function runSession(page: string): Promise<void> {
    let exit = 0
    for (const { command, output } of shownCommands(page)) {
      const [name, ...argv] = words(command.replace(/ #.*/, ''))
      const shown = normalised(output)
      if (command === 'echo $?') {
        expect({ command, exit: `${exit}\n` }).toEqual({ command, exit: shown })
      } else if (name === 'sleep') {
        await story.complete()
      } else {
        expect(name).toBe('pawl')
        const end = await pawlCommand(argv)
        exit = end.exit
        const printed = normalised(end.out + end.err, database.schema)
        expect({ command, printed }).toEqual({ command, printed: shown })
      }
    }
  }

  async function keysLeft(): Promise<unknown[]> {
    const keys = await database.rows<{ key: string; status: string; response_status: number | null }>(
      'SELECT key, status, response_status FROM pawl.idempotency_keys ORDER BY key',
    )
    return keys.map(({ key, status, response_status }) => [key, status, response_status])
  }

  test('the runbook prints what it shows, and leaves nothing stuck', async () => {
    await runSession(runbook)
    await story.complete()

    expect(await keysLeft()).toEqual([
      ['permit-1005', 'finished', 201],
      ['ride-1001', 'finished', 201],
      ['ride-1002', 'finished', 201],
      ['ride-1003', 'finished', 201],
      ['ride-1004', 'finished', 410],
      ['ride-1006', 'finished', 201],
      ['ride-1007', 'running', null],
    ])
    expect(story.world.faxes).toBe(1)
    expect([...story.world.charges.values()].map(({ id }) => id).toSorted()).toEqual(
      [1001, 1002, 1003, 1006, 1007].map((trip) => `ch_${trip}`),
    )
  })

  test('the reference prints what it shows, and decides nothing', async () => {
    await runSession(reference)

    expect(await keysLeft()).toEqual([
      ['permit-1005', 'stuck', null],
      ['ride-1001', 'finished', 201],
      ['ride-1002', 'stuck', null],
      ['ride-1003', 'stuck', null],
      ['ride-1004', 'stuck', null],
      ['ride-1006', 'finished', 201],
      ['ride-1007', 'running', null],
    ])
    expect(story.world.faxes).toBe(1)
  })

  test('they go through the commands that a person needs', () => {
    const shown = [...shownCommands(runbook), ...shownCommands(reference)]
    const names = new Set(shown.map(({ command }) => command.split(' ').slice(0, 2).join(' ')))
    for (const name of [
      'doctor',
      'status',
      'list',
      'show',
      'unstick',
      'answer',
      'dead',
      'requeue',
      'reconcile',
    ])
      expect(names).toContain(`pawl ${name}`)
  })

  test('the reference shows what doctor says of a server that keeps its commits', () => {
    const [finding] = judgeDurability({ fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on' })
    expect(reference).toContain(`ok       durability  ${finding?.detail}\n`)
  })
})

/** The block of SQL in a section, by its heading. */
function sqlIn(page: string, heading: string): string {
  const section = page.split(`\n## ${heading}\n`)[1]?.split('\n## ')[0] ?? ''
  const sql = /^```sql\n(.*?)^```$/ms.exec(section)?.[1]
  if (sql === undefined) throw new Error(`the page has no SQL under '${heading}'`)
  return sql
}

test('every version of the tables is listed', () => {
  const section = reference.split('\n## Migrations\n')[1]?.split('\n## ')[0] ?? ''
  const versions = [...section.matchAll(/^\| (\d+) +\|/gm)].map(([, version]) => Number(version))
  expect(versions).toEqual(Array.from({ length: SCHEMA_VERSION }, (_, index) => index + 1))
})

test('what the server logs when a holder is fenced off is on the page', async () => {
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

test('the numbers worth a graph are what pawl status tells', async () => {
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

/** Roles belong to the whole server: each run has its own. */
async function withRights() {
  const database = await TestDatabase.create()
  const story = new Story(database)
  await story.fill()
  const suffix = randomUUID().replaceAll('-', '').slice(0, 12)
  const roles = ['rides_app', 'rides_operator', 'rides_viewer', 'rides_support'] as const
  const named = (role: (typeof roles)[number]) => `${role}_${suffix}`
  for (const role of roles) await database.rows(`CREATE ROLE ${named(role)}`)
  await database.rows(
    sqlIn(reference, 'Roles and rights')
      .replaceAll(/\b(rides_[a-z]+)\b/g, `$1_${suffix}`)
      .replaceAll('SCHEMA pawl ', `SCHEMA ${database.schema} `),
  )
  onTestFinished(async () => {
    for (const role of roles) await database.rows(`DROP OWNED BY ${named(role)}; DROP ROLE ${named(role)}`)
    await database.drop()
  })
  const env = (role: (typeof roles)[number]) => {
    const url = new URL(database.url)
    url.searchParams.set('options', `-c role=${named(role)}`)
    return { DATABASE_URL: url.href, PAWL_ACTOR: 'anna@ops-1' }
  }
  const as = (role: (typeof roles)[number], ...argv: string[]) =>
    pawl([...argv.slice(0, 1), '--schema', database.schema, ...argv.slice(1)], { env: env(role) })
  return { database, story, named, as }
}

describe('rights', () => {
  test('of the application: requests, background services, and migrate at every start', async () => {
    const { database, story, named } = await withRights()
    const pool = database.pool({ options: `-c role=${named('rides_app')}` })
    const { createRide, faxPermit } = story
    const engine = createEngine({ pool, schema: database.schema, pipelines: [createRide, faxPermit] })
    expect(await migrate(pool, { schema: database.schema })).toEqual({ applied: 0 })
    const request = { scope: SCOPE, key: 'as the application', input: { trip: 1 } }
    expect(await engine.execute(createRide, request)).toMatchObject({ type: 'completed' })
    await database.rows(
      `UPDATE pawl.idempotency_keys SET expires_at = clock_timestamp() WHERE key = 'ride-1001'`,
    )
    await database.rows(
      `UPDATE pawl.effects SET created_at = created_at - interval '500 days' WHERE key = 'ride-1001'`,
    )
    const sink = {
      deliver: async (jobs: readonly unknown[]) => jobs.map(() => ({ type: 'delivered' }) as const),
    }
    expect(await createBackground({ engine, relay: { sink } }).runOnce()).toMatchObject({
      completer: { completed: 1 },
      relays: [{ delivered: 1 }],
      reaper: { deleted: 1, effectsDeleted: 1 },
    })
    await engine.close()
  })

  test('of the operator: all that pawl does but migrate', async () => {
    const { as, database } = await withRights()
    await database.rows(
      `UPDATE pawl.idempotency_keys SET lease_until = clock_timestamp() + interval '1 hour' WHERE key = 'ride-1006'`,
    )
    const because = ['--reason', 'tried']
    const unstuck = await as('rides_operator', 'unstick', SCOPE, 'ride-1002', ...because)
    const revoked = await as('rides_operator', 'revoke', SCOPE, 'ride-1006', ...because)
    const answered = await as('rides_operator', 'answer', SCOPE, 'ride-1004', ...because, '--status', '410')
    const requeued = await as('rides_operator', 'requeue', '--all', ...because)
    const reaped = await as('rides_operator', 'reap')
    expect([unstuck, revoked, answered, requeued, reaped].map(({ exit, err }) => `${exit} ${err}`)).toEqual(
      Array(5).fill('0 '),
    )
  })

  test('of the viewer: all that only looks', async () => {
    const { as } = await withRights()
    const ends = await Promise.all([
      as('rides_viewer', 'status'),
      as('rides_viewer', 'doctor'),
      as('rides_viewer', 'list'),
      as('rides_viewer', 'show', SCOPE, 'ride-1002'),
      as('rides_viewer', 'dead'),
      as('rides_viewer', 'drain', 'create-ride@1'),
      as('rides_viewer', 'reconcile', 'no-records.mjs', '--from', day(-1), '--to', day(2)),
    ])
    expect(ends.map(({ exit, err }) => `${exit} ${err}`)).toEqual(['3 ', '3 ', '0 ', '0 ', '0 ', '0 ', '3 '])
    const refused = await as('rides_viewer', 'unstick', SCOPE, 'ride-1002', '--reason', 'tried')
    expect(refused).toMatchObject({
      exit: 1,
      err: expect.stringContaining('lacks rights that Pawl needs: UPDATE, DELETE on'),
    })
  })

  test('of support: the view without inputs and bodies, and nothing else', async () => {
    const { database, named } = await withRights()
    const pool = database.pool({ options: `-c role=${named('rides_support')}` })
    expect((await pool.query(`SELECT * FROM ${database.schema}.keys`)).rows).toHaveLength(7)
    await expect(pool.query(`SELECT input FROM ${database.schema}.idempotency_keys`)).rejects.toThrow(
      'permission denied',
    )
  })
})

const call = () => ({ id: 'ch' })
const calling = (deadlineMs: number): Intent => ({
  kind: 'calling',
  phase: 'charged',
  deadlineMs,
  server: 'here',
})

describe('who decides', () => {
  const NOW = 10 * DAY_MS
  const WINDOW_MS = 1_000
  const QUIET_MS = 500
  const AGE_MS = 60_000
  const PHASES = {
    keyed: { call, windowMs: WINDOW_MS },
    'keyed and reconcile': { call, windowMs: WINDOW_MS, reconcile: () => absent() },
    queryable: { call, guarantee: 'queryable', quietForMs: QUIET_MS, reconcile: () => absent() },
    at_most_once: { call, guarantee: 'at_most_once' },
    'at_most_once and whenUnknown': { call, guarantee: 'at_most_once', whenUnknown: () => ({}) },
  } as const
  const rideWith = (kind: keyof typeof PHASES) =>
    pipeline<null>({ name: 'ride', version: 1, maxAttempts: 3, maxAgeMs: AGE_MS })
      .local('created', () => undefined)
      .foreign('charged', PHASES[kind])
      .finish(() => respond(200))

  const called: Intent = { kind: 'called', phase: 'charged', result: { id: 'ch' } }
  const notMade: Intent = { kind: 'not_made', phase: 'charged', atMs: NOW }

  /** A key that nobody holds any more, at `created`, committed a moment ago. */
  function rowOf(kind: keyof typeof PHASES, changes: Partial<KeyRow> & { committedAgoMs?: number }): KeyRow {
    const { committedAgoMs = 0, ...columns } = changes
    const holder = randomUUID()
    return {
      id: 'id',
      scope: 's',
      key: 'k',
      pipeline: 'ride',
      kind: 'pipeline',
      version: 1,
      definitionHash: rideWith(kind).definitionHash,
      fingerprint: 'aa',
      fingerprintVersion: 1,
      inputJson: 'null',
      stateJson: '{}',
      recoveryPoint: 'created',
      status: 'running',
      stuckReason: null,
      fence: 1,
      holder,
      writtenBy: '1',
      leaseUntilMs: NOW - 1,
      attempts: 1,
      retries: 0,
      runAfterMs: null,
      intent: null,
      effectEpoch: 0,
      lastError: null,
      response: null,
      unstuckMs: null,
      trail: [
        { point: 'created', atMs: NOW - committedAgoMs, fence: 1, skipped: false, outcomeUnknown: false },
      ],
      createdMs: NOW - committedAgoMs,
      updatedMs: NOW - committedAgoMs,
      expiresMs: null,
      nowMs: NOW,
      server: 'here',
      ...columns,
    }
  }

  /** As the completer's resume does: may it be taken over, and what comes next? */
  function decided(
    kind: keyof typeof PHASES,
    changes: Partial<KeyRow> & { committedAgoMs?: number },
  ): Decided {
    const ride = rideWith(kind)
    const registry = new Registry([ride])
    const row = rowOf(kind, changes)
    const settings = new ResolvedSettings({}, registry.definitions)
    const decision = decideReservation(
      row,
      { holder: 'completer', request: null, onlyDue: true },
      registry,
      settings,
    )
    switch (decision.type) {
      case 'take_over': {
        const step = nextStep(ride[definitionOf], { ...row, ...decision.at }, NOW)
        if (step.do === 'mark_stuck') return { who: 'a person', how: `\`${step.reason}\`` }
        if (step.do === 'stop_at_call') return { who: 'a person', how: '`unknown_outcome`' }
        return { who: 'itself', how: HOW[step.do] }
      }
      case 'mark_stuck':
      case 'stuck':
        return { who: 'a person', how: `\`${decision.reason}\`` }
      case 'refuse':
        return { who: 'a person', how: 'not registered' }
      case 'in_flight':
        return { who: 'nobody', how: 'lease' }
      case 'mismatch':
      case 'replay':
      case 'ours':
        throw new Error(`no row of the table is about ${decision.type}`)
    }
  }

  interface Decided {
    readonly who: 'itself' | 'a person' | 'nobody'
    /** Words that the row's last column has. */
    readonly how: string
  }
  const HOW = {
    run_local: 'runs',
    finish: 'runs',
    call: 'calls',
    settle: 'settles',
    reconcile: 'asks',
    go_on: 'goes on',
  } as const

  const past = { committedAgoMs: WINDOW_MS + 1 }
  const SITUATIONS: Record<string, () => Decided | Promise<Decided>> = {
    'a local phase or the finish was cut off': () =>
      decided('keyed', { recoveryPoint: 'started', trail: [] }),
    'a call’s result is known, not yet settled': () => decided('at_most_once', { intent: called }),
    '`keyed`, within `windowMs`': () => decided('keyed', {}),
    '`keyed`, past it, with `reconcile`': () => decided('keyed and reconcile', past),
    '`keyed`, past it, without': () => decided('keyed', past),
    '`queryable`, call not declared': () => decided('queryable', {}),
    '`queryable`, declared, before its quiet time': () => decided('queryable', { intent: calling(NOW) }),
    '`queryable`, declared, after it': () => decided('queryable', { intent: calling(NOW - QUIET_MS) }),
    '`at_most_once`, call not declared': () => decided('at_most_once', {}),
    '`at_most_once`, declared': () => decided('at_most_once', { intent: calling(NOW) }),
    'a call of a later phase is on record': () =>
      decided('at_most_once', { recoveryPoint: 'started', trail: [], intent: calling(NOW) }),
    '`at_most_once`, declared, with `whenUnknown`': () =>
      decided('at_most_once and whenUnknown', { intent: calling(NOW) }),
    'an exception or a crash, below `maxAttempts`': () => decided('keyed', { attempts: 2 }),
    'an exception or a crash, at `maxAttempts`': () => decided('keyed', { attempts: 3 }),
    'an orderly retry, however many': () => decided('keyed', { attempts: 0, retries: 1_000 }),
    'older than `maxAgeMs`': () => decided('keyed', { createdMs: NOW - AGE_MS }),
    'version or definition not registered': () => decided('keyed', { version: 9 }),
    'somebody’s lease runs': () => decided('keyed', { leaseUntilMs: NOW + 1 }),
    'stuck already': () =>
      decided('keyed', { status: 'stuck', stuckReason: 'unknown_outcome', leaseUntilMs: null }),
    'unstuck with `--not-executed`': () => decided('at_most_once', { intent: notMade, unstuckMs: NOW }),
    'unstuck with `--result`': () => decided('at_most_once', { intent: called, unstuckMs: NOW, ...past }),
    'a crashed atomic handler': atomicHandler,
  }

  /** No pure function decides here: the completer's own statement deletes them. */
  async function atomicHandler(): Promise<Decided> {
    const database = await TestDatabase.create()
    onTestFinished(() => database.drop())
    const handler = pipeline<null>({ name: 'atomic.test', version: 1, maxAgeMs: AGE_MS }).finish(() =>
      respond(204),
    )
    await dieAt(database, { pipelines: [] }, 'finished/finish_key#1:before', (doomed) =>
      executeAtomic(doomed, handler, { scope: 's', key: 'crashed', input: null }),
    )
    const engine = createEngine({ pool: database.pool(), schema: database.schema, pipelines: [] })
    // So that the engine knows the handler, as a route makes it.
    await executeAtomic(engine, handler, { scope: 's', key: 'other', input: null })
    const { completer } = createBackground({ engine, reaper: false })
    expect(await completer?.runOnce()).toMatchObject({ found: 0, forgotten: 0 })
    await database.rows(`UPDATE pawl.idempotency_keys SET created_at = created_at - interval '1 hour'`)
    const counts = await completer?.runOnce()
    await engine.close()
    return counts?.forgotten === 1 ? { who: 'itself', how: 'deletes' } : { who: 'nobody', how: '' }
  }

  /** The rows of the table, by their first column. */
  const rows = new Map(
    (reference.split('\n## Who decides\n')[1]?.split('\n## ')[0] ?? '')
      .split('\n')
      .filter((line) => line.startsWith('| '))
      .slice(2)
      .map((line) =>
        line
          .slice(2, -2)
          .split(' | ')
          .map((cell) => cell.trim()),
      )
      .map(([situation = '', ...cells]) => [situation, cells]),
  )

  test('every situation is a row, and every row is tried here', () => {
    expect([...rows.keys()]).toEqual(Object.keys(SITUATIONS))
  })

  test.each(Object.entries(SITUATIONS))('%s', async (situation, decide) => {
    const [who, how] = rows.get(situation) ?? []
    const truth = await decide()
    expect(who).toBe(truth.who)
    expect(how).toContain(truth.how)
  })
})

describe('names', () => {
  test('the channels of the pages exist', () => {
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

  test('all indexes are listed', () => {
    expect(EXPECTED_INDEXES.filter((name) => !reference.includes(`\`${name}\``))).toEqual([])
  })
})
