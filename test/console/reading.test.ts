import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { FindAnswer, InterventionList, RequestList } from '../../packages/console/src/api.js'
import { readOnlyPoolLike } from '../../packages/console/src/read-only-pool.js'
import { seedEffect, seedKey } from '../support/seeded-rows.js'
import { TestDatabase } from '../support/test-database.js'
import { errorOf } from './console-client.js'
import { consoleOn, type TestConsole } from './console-on.js'

let database: TestDatabase
let console: TestConsole
beforeAll(async () => {
  database = await TestDatabase.create()
  console = await consoleOn(database)
})
afterAll(async () => {
  await console.close()
  await database.drop()
})

const reading = (options: pg.PoolConfig = {}) => {
  const pool = readOnlyPoolLike(database.pool(options))
  onTestFinished(() => pool.end())
  return pool
}

describe('the connections for reading', () => {
  test.each([
    `INSERT INTO SCHEMA.interventions (id, scope, action, actor, created_at) VALUES (gen_random_uuid(), '', 'x', 'x', now())`,
    `UPDATE SCHEMA.idempotency_keys SET status = 'running'`,
    `DELETE FROM SCHEMA.staged_jobs`,
    'CREATE TABLE SCHEMA.mine (x int)',
    `SELECT * FROM SCHEMA.idempotency_keys FOR UPDATE`,
    'TRUNCATE SCHEMA.effects',
  ])('%s fails there', async (sql) => {
    await expect(reading().query(sql.replace('SCHEMA', database.schema))).rejects.toMatchObject({
      code: '25006',
    })
  })

  test('have time-outs on the server, whatever those of the pool are, and are told apart there', async () => {
    const url = new URL(database.url)
    url.searchParams.set('statement_timeout', '600000')
    url.searchParams.set('lock_timeout', '600000')
    const patient = { statement_timeout: 600_000, lock_timeout: 600_000 }
    for (const options of [{}, patient, { connectionString: url.href }]) {
      const { rows } = await reading(options).query(
        `SELECT current_setting('statement_timeout') AS statement, current_setting('lock_timeout') AS lock,
                current_setting('application_name') AS name, current_setting('default_transaction_read_only') AS only`,
      )
      expect(rows).toEqual([{ statement: '20s', lock: '2s', name: 'pawl-console', only: 'on' }])
    }
  })

  test('keep what the pool they are like says, in its URL or beside it', async () => {
    const url = new URL(database.url)
    url.searchParams.set('options', '-c work_mem=7MB')
    for (const options of [{ connectionString: url.href }, { options: '-c work_mem=7MB' }]) {
      const { rows } = await reading(options).query(
        `SELECT current_setting('work_mem') AS mem, current_setting('default_transaction_read_only') AS only`,
      )
      expect(rows).toEqual([{ mem: '7MB', only: 'on' }])
    }
  })

  test('are refused where a hook of the pool has made them writable', async () => {
    const pool = database.pool()
    pool.on('connect', (client) => void client.query('SET default_transaction_read_only = off'))
    const writable = readOnlyPoolLike(pool)
    onTestFinished(() => writable.end())
    await expect(writable.query('SELECT 1')).rejects.toThrow(/The connections for reading are not read-only/)
  })

  test('do not wait long for a table that is being altered, and the pages say so', async () => {
    const client = await database.admin.connect()
    onTestFinished(async () => {
      await client.query('ROLLBACK')
      client.release()
    })
    await client.query(`BEGIN; LOCK TABLE ${database.schema}.idempotency_keys IN ACCESS EXCLUSIVE MODE`)
    const answer = await console.as('anna').get('api/requests')
    expect(answer.status).toBe(503)
    expect(errorOf(answer)).toEqual({
      code: 'too_slow',
      message: 'The database did not answer in time. Try again.',
    })
  })
})

test('every page comes up for a role that may only read, and a change by it says what is missing', async () => {
  const id = await seedKey(database, { status: 'stuck' })
  const role = `reads_${database.schema}`
  await database.admin.query(
    `CREATE ROLE ${role} LOGIN PASSWORD 'reads';
     GRANT USAGE ON SCHEMA ${database.schema} TO ${role}; GRANT SELECT ON ALL TABLES IN SCHEMA ${database.schema} TO ${role}`,
  )
  const url = new URL(database.url)
  url.username = role
  url.password = 'reads'
  const readPool = database.pool({ connectionString: url.href })
  const own = await consoleOn(database, { readPool })
  onTestFinished(async () => {
    await own.close()
    await readPool.end()
    await database.admin.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`)
  })
  const anna = own.as('anna')
  // The changes go by the other pool, whose role may make them; a preview does not need it.
  expect((await anna.post(`api/requests/${id}/preview/retry`, {})).status).toBe(200)
  expect((await anna.post(`api/requests/${id}/retry`, { reason: 'to see' })).status).toBe(200)
})

test('tables that are not there, or of another version, are told, and what to run', async () => {
  const none = await consoleOn(database, { schema: 'no_such_schema' })
  onTestFinished(() => none.close())
  for (const path of ['flow', 'requests', 'inbox', 'duplicates', 'interventions', 'find?q=x']) {
    const answer = await none.as('anna').get(`api/${path}`)
    expect(answer.status, path).toBe(503)
    expect(errorOf(answer)).toEqual({
      code: 'not_migrated',
      message:
        "Schema 'no_such_schema' does not have the tables that this version of Pawl works with. Run: pawl migrate --schema no_such_schema",
    })
  }
  // The page itself says so to the person.
  expect((await none.as('anna').get('api/session')).status).toBe(200)
})

const deep = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`

describe('hostile text', () => {
  /** Markup, an escape sequence, marks of direction, a formula, half of a surrogate pair's neighbours, and a lot of it. */
  const HOSTILE = [
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    '\u001b[2J\u001b]0;x\u0007',
    '\u202Eevil\u2066',
    '=cmd|"/c calc"!A1',
    'line\r\nset-cookie: x=1',
    '\u{1f600}\u0085\u2028x',
    "'; DROP TABLE x; --",
    'x'.repeat(200),
    '__proto__',
  ]

  test.each(HOSTILE)(
    '%j in every name comes back as it is, as JSON that no browser takes for a page',
    async (name) => {
      const id = await seedKey(database, { scope: name, key: name, pipeline: name, recoveryPoint: name })
      await seedEffect(database, { keyId: id, scope: name, key: name, reference: name, at: new Date() })
      const anna = console.as('anna')
      const query = new URLSearchParams({ scope: name, pipeline: name, point: name })
      const listed = await anna.get<RequestList>(`api/requests?${query.toString()}`)
      expect(listed.body.rows).toMatchObject([{ key: name, scope: name, pipeline: name }])
      expect(listed.headers.get('content-type')).toBe('application/json; charset=utf-8')
      const found = await anna.get<FindAnswer>(`api/find?q=${encodeURIComponent(name)}`)
      expect(found.status).toBe(200)
      expect(found.body.found.map(({ kind }) => kind).toSorted()).toEqual(['effect', 'key', 'scope'])
      for (const path of ['flow', 'inbox', `requests/${id}`])
        expect((await anna.get(`api/${path}`)).status, path).toBe(200)
      const change = await anna.post(`api/requests/${id}/revoke`, { reason: name })
      expect(change.status).toBe(409)
    },
  )

  test.each([
    'requests?scope=%00',
    'requests?pipeline=%00',
    'requests?point=%00',
    'requests?after=%00',
    'requests?olderThanMs=999999999999999',
    'requests?version=2147483648',
    'requests?scope=%ED%A0%80',
    `requests?scope=${'x'.repeat(5_000)}`,
    'requests/%00',
    `requests/${'0'.repeat(99)}`,
    'find?q=%00',
    'find?q=%ED%A0%80',
    `find?q=${'x'.repeat(601)}`,
    `find?q=${'/'.repeat(600)}`,
    'interventions?actor=%00',
    'interventions?after=e30',
    'interventions?from=999999-01-01',
    'interventions?from=0000-01-01T00:00:00Z',
    'interventions?from=2026-01-02&to=2026-01-01',
    'reconciliation?from=2026-01-01&to=2026-03-01',
    'reconciliation?from=275760-09-13T00:00:00Z',
    'duplicates?minutes=0',
    'duplicates?minutes=1441',
    'dead?name=%00',
    'flow?x=1',
    'constructor',
  ])('%s is answered, and not as a mistake of ours', async (path) => {
    const answer = await console.as('anna').get(`api/${path}`)
    expect([200, 400, 404], JSON.stringify(answer.body)).toContain(answer.status)
    if (answer.status !== 200) expect(errorOf(answer).code).toMatch(/^(?:invalid|not_found)$/)
  })

  test.each([
    ['no JSON', '{"reason": '],
    ['nothing', ''],
    ['a list', '[]'],
    ['null', 'null'],
    ['a prototype', '{"reason":"x","__proto__":{"isAdmin":true}}'],
    ['deep JSON', `{"reason":"x","status":200,"body":${deep(100_000)}}`],
    ['a NUL', '{"reason":"\\u0000","status":200}'],
    ['half a surrogate pair', '{"reason":"\\ud800","status":200}'],
    ['a long reason', JSON.stringify({ reason: 'x'.repeat(100_000), status: 200 })],
    ['a wrong id', JSON.stringify({ reason: 'x', status: 200, ifRevision: 2 ** 53 })],
  ])('a body of %s is refused, and nothing changes', async (_what, body) => {
    const id = await seedKey(database, { status: 'stuck' })
    const anna = console.as('anna')
    const { csrf, cookie } = await anna.credentials()
    const response = await fetch(`${console.origin}/api/requests/${id}/answer`, {
      method: 'POST',
      body,
      headers: { 'x-user': 'anna', 'content-type': 'application/json', 'x-pawl-csrf': csrf, cookie },
    })
    const text = await response.text()
    expect(response.status, text).toBe(400)
    expect(text).toMatch(/"code":"invalid"/)
    const [row] = await database.rows('SELECT status FROM pawl.idempotency_keys WHERE id = $1', [id])
    expect(row).toEqual({ status: 'stuck' })
  })
})

describe('a search', () => {
  test('finds by id, key, scope and key, scope, reference and provider key', async () => {
    const id = await seedKey(database, { scope: 'rider-1', key: 'ride-1' })
    await seedEffect(database, {
      keyId: id,
      scope: 'rider-1',
      key: 'ride-1',
      reference: 'ch_77',
      providerKey: 'pk_77',
      at: new Date(),
    })
    const anna = console.as('anna')
    const kinds = async (q: string) =>
      (await anna.get<FindAnswer>(`api/find?q=${encodeURIComponent(q)}`)).body.found.map(({ kind }) => kind)
    expect(await kinds(id)).toEqual(['key'])
    expect(await kinds(` ${id.toUpperCase()} `)).toEqual(['key'])
    expect(await kinds('rider-1/ride-1')).toEqual(['key'])
    expect(await kinds('rider-1 ride-1')).toEqual(['key'])
    expect(await kinds('ride-1')).toEqual(['key', 'effect'])
    expect(await kinds('rider-1')).toEqual(['scope'])
    expect(await kinds('ch_77')).toEqual(['effect'])
    expect(await kinds('pk_77')).toEqual(['effect'])
    expect(await kinds('nothing-like-it')).toEqual([])
    expect(await kinds('   ')).toEqual([])
  })
})

describe('the audit trail as a file', () => {
  beforeAll(async () => {
    await database.rows(
      `INSERT INTO pawl.interventions (scope, key, action, actor, reason, detail, created_at)
       SELECT 'export', '=1+' || n, 'unstick', '@actor', E'because, "he" said\\nso', '{"given":{"secret":"s-4242"}}', timestamptz '2020-01-01' + n * interval '1 s'
         FROM generate_series(1, 2500) AS n`,
    )
  })
  const WINDOW = 'from=2020-01-01&to=2020-01-02'

  test('as CSV has every row once, runs nothing in a spreadsheet, and has no details', async () => {
    const { status, headers, body } = await console.as('anna').get<string>(`api/interventions.csv?${WINDOW}`)
    expect(status).toBe(200)
    expect(headers.get('content-type')).toBe('text/csv; charset=utf-8')
    expect(headers.get('content-disposition')).toBe('attachment; filename="interventions.csv"')
    expect(body).not.toContain('s-4242')
    const lines = body.split('\r\n')
    expect(lines[0]).toBe('at,action,actor,reason,scope,key,keyId,id,detailBytes')
    expect(lines).toHaveLength(2_502)
    const keys = new Set(
      lines.map((line) => /"('=1\+\d+)"/.exec(line)?.[1]).filter((key) => key !== undefined),
    )
    expect(keys.size).toBe(2_500)
    expect(lines[1]).toContain(`"because, ""he"" said\nso"`)
    expect(lines[1]).toContain(`"'@actor"`)
    for (const line of lines) expect(line).not.toMatch(/(?:^|,)"?[=+@\t-]/)
  })

  test.each([';', '\t', '\n', '\r\n'])(
    'as CSV runs nothing either where a spreadsheet splits at %j',
    async (separator) => {
      await database.rows(
        `INSERT INTO pawl.interventions (scope, key, action, actor, reason, created_at)
         VALUES ('export', 'k', 'unstick', 'anna', $1, timestamptz '2019-01-01')`,
        [`so it is${separator}=cmd|'/c calc'!A1${separator} "@x"${separator}"=1`],
      )
      const { body } = await console
        .as('anna')
        .get<string>('api/interventions.csv?from=2019-01-01&to=2019-01-02')
      await database.rows(`DELETE FROM pawl.interventions WHERE created_at < '2019-01-02'`)
      expect(body).toContain(`so it is${separator}'=cmd`)
      // Some take a quote that does not begin a cell for text, and others drop it.
      for (const cell of body.split(/[;\t\r\n]/)) expect(cell).not.toMatch(/^\s*"*\s*[=+@|-]/)
    },
  )

  test('as JSON has the same', async () => {
    const { body } = await console
      .as('anna')
      .get<{ isPartial: boolean; interventions: { detail: object }[] }>(
        `api/interventions.json?${WINDOW}&actor=%40actor`,
      )
    expect(body.isPartial).toBe(false)
    expect(body.interventions).toHaveLength(2_500)
    expect(body.interventions[0]?.detail).toEqual({ hidden: true, bytes: 29 })
  })

  test('is read page by page, each row once', async () => {
    const ids: string[] = []
    for (let after = ''; ;) {
      const { body } = await console
        .as('anna')
        .get<InterventionList>(`api/interventions?${WINDOW}&limit=500${after}`)
      ids.push(...body.rows.map(({ id }) => id))
      if (body.next === null) break
      after = `&after=${body.next}`
    }
    expect([ids.length, new Set(ids).size]).toEqual([2_500, 2_500])
  })
})
