import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { pawl } from '../cli/pawl.js'
import { CitusDatabase, CitusRide, describeOnCitus } from './citus-database.js'

const REASON = ['--reason', 'to see that it works']
const DAY_MS = 86_400_000

const nameOf = ({ scope, key }: CitusRide) => [scope, key]

describeOnCitus('the command line on Citus', () => {
  const database = new CitusDatabase()
  /** On several servers. All are charged at one provider. */
  const { pipeline: shared, provider } = new CitusRide(database)
  const [finished, stuck, held, erased, ...others] = Array.from(
    { length: 10 },
    () => new CitusRide(database, undefined, () => shared),
  ) as [CitusRide, CitusRide, CitusRide, CitusRide, ...CitusRide[]]
  let folder: string

  beforeAll(async () => {
    await database.create()
    folder = await mkdtemp(join(tmpdir(), 'pawl-citus-'))
    const engine = finished.engine()
    for (const ride of [finished, stuck, held, erased, ...others])
      expect((await ride.execute(engine)).type).toBe('completed')
    await engine.close()
    await setTo(
      stuck,
      `status = 'stuck', stuck_reason = 'attempts_exhausted', recovery_point = 'charge_created', expires_at = NULL`,
    )
    await setTo(
      held,
      `status = 'running', recovery_point = 'charge_created', expires_at = NULL, response_status = NULL, response_headers = NULL,
       response_body = NULL, lease_until = statement_timestamp() + interval '1 hour'`,
    )
    const dead = `UPDATE pawl.staged_jobs SET dead_at = statement_timestamp(), attempts = 25 WHERE scope = $1`
    await database.rows(dead, [finished.scope])
  })
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
    await database.drop()
  })

  const setTo = ({ scope, key }: CitusRide, columns: string) =>
    database.rows(`UPDATE pawl.idempotency_keys SET ${columns} WHERE scope = $1 AND key = $2`, [scope, key])

  /** Expects that it does what it should, unless another exit code is named, and returns what it says. */
  async function run(argv: readonly string[], exit = 0): Promise<string> {
    const env = { DATABASE_URL: database.url, PAWL_ACTOR: 'anna@ops-1' }
    const end = await pawl([...argv, '--schema', database.schema], { env })
    expect({ argv, exit: end.exit, err: end.err }).toEqual({ argv, exit, err: '' })
    return end.out
  }

  const idOf = async ({ scope, key }: CitusRide): Promise<string> => {
    const ids = 'SELECT id FROM pawl.idempotency_keys WHERE scope = $1 AND key = $2'
    return (await database.rows<{ id: string }>(ids, [scope, key]))[0]?.id ?? ''
  }

  test('shows what there is on all servers', async () => {
    expect(await run(['migrate'])).toContain('is up to date')
    expect(await run(['status'], 3)).toContain('8 shards on Citus')
    const { findings } = JSON.parse(await run(['doctor', '--json'], 3)) as {
      findings: { check: string; level: string }[]
    }
    expect(findings.filter(({ level }) => level === 'error')).toEqual([])
    const all = await run(['list', '--status', 'finished'])
    for (const ride of [finished, erased, ...others]) expect(all).toContain(ride.key)
    expect(await run(['list'])).toContain(held.key)
    expect(await run(['list', '--scope', stuck.scope, '--status', 'stuck'])).toContain(stuck.key)
    expect(await run(['list', '--limit', '3', '--status', 'finished'])).toContain('rider-ride')
    expect(await run(['drain', 'rider-ride@1'], 3)).toContain('in flight')
    const shown = await run(['show', ...nameOf(finished)])
    expect(shown).toContain('send_receipt')
    expect(shown).toContain('charge_created')
    expect(await run(['show', '--id', await idOf(finished)])).toContain(finished.key)
    expect(await run(['dead'])).toContain('send_receipt')
  })

  test("compares the provider's records with the effects of all servers", async () => {
    const window = [-DAY_MS, DAY_MS].map((ms) => new Date(Date.now() + ms).toISOString())
    const reconcile = async (references: readonly string[], exit: number) => {
      const path = join(folder, `${exit}.mjs`)
      const list = JSON.stringify(references)
      await writeFile(
        path,
        `export default () => ${list}.map((reference) => ({ reference, at: new Date() }))`,
      )
      return run(['reconcile', path, '--from', window[0] ?? '', '--to', window[1] ?? ''], exit)
    }
    const charges = (await provider.ledger()).map(({ id }) => id)
    expect(charges).toHaveLength(4 + others.length)
    expect(await reconcile(charges, 0)).toMatch(/^Matched +10$/m)
    const [missed = '', ...rest] = charges
    const differs = await reconcile([...rest, 'ch_unknown'], 3)
    expect(differs).toContain('ch_unknown')
    expect(differs).toContain(missed)
  })

  test('intervenes where the key is', async () => {
    await run(['revoke', ...nameOf(held), ...REASON])
    await run(['unstick', ...nameOf(stuck), ...REASON])
    await setTo(stuck, `status = 'stuck', stuck_reason = 'attempts_exhausted'`)
    await run(['answer', ...nameOf(stuck), ...REASON, '--status', '410'])
    expect(await run(['show', '--id', await idOf(stuck)])).toContain('410')
    await run(['extend', ...nameOf(finished), ...REASON, '--for', '30d'])
    expect(await run(['requeue', '--all', ...REASON])).toContain('Requeued 2 jobs')
    expect(await run(['dead'])).toContain('No job is dead')
    const [gone, expired] = others as [CitusRide, CitusRide]
    await run(['forget', ...nameOf(gone), ...REASON, '--effects-undone'])
    await setTo(expired, `expires_at = statement_timestamp() - interval '1 s'`)
    expect(await run(['reap'])).toMatch(/Deleted keys\D+1\b/)
    for (const statement of [
      'DELETE FROM pawl.staged_jobs WHERE scope = $1',
      `UPDATE pawl.effects SET created_at = statement_timestamp() - interval '5 days' WHERE scope = $1`,
    ])
      await database.rows(statement, [erased.scope])
    await run(['erase', '--scope', erased.scope, ...REASON])
    for (const ride of [gone, expired, erased]) expect(await idOf(ride)).toBe('')
    const notes = await database.rows<{ action: string }>(
      'SELECT DISTINCT action FROM pawl.interventions ORDER BY action',
    )
    expect(notes.map(({ action }) => action)).toEqual([
      'answer',
      'erase',
      'extend',
      'forget',
      'reap',
      'requeue',
      'revoke',
      'unstick',
    ])
  })
})
