import { type PawlVariant, schemaOfVariant } from '../contenders/registry.js'
import { alternate } from '../measure/rounds.js'
import { takeSample } from '../measure/sample.js'
import { warmUp } from '../measure/warm-up.js'
import { short } from '../report/numbers.js'
import { linesOf } from '../report/section.js'
import type { Client } from 'pg'
import { ALL_EXPIRED, fillFinishedKeys } from './finished-keys.js'
import { freshLoad } from './keyed-load.js'
import type { Mode, Scenario } from './scenario.js'
import { writeOut } from './write-out.js'

const VARIANT: PawlVariant = 'pawl@reaped'
const CLIENTS = 32

/** `expired`: more than the reaper deletes in all rounds. By default it deletes 500, pauses for 50 ms, and so on. */
const PLANS: Readonly<Record<Mode, { expired: number; rounds: number; leadInMs: number; windowMs: number }>> =
  {
    quick: { expired: 30_000, rounds: 3, leadInMs: 150, windowMs: 600 },
    full: { expired: 200_000, rounds: 7, leadInMs: 400, windowMs: 2_000 },
  }

const WITHOUT = { label: 'without the reaper', reaps: false }
const WITH = { label: 'with the reaper', reaps: true }

/** Requests in front, the reaper behind them in the same process, with its default settings. */
export const reaper: Scenario = {
  title: 'reaper under load',
  async run(stage) {
    const { arena, mode, among, say } = stage
    if (among(['pawl']).length === 0) return []
    say('reaper')
    const { expired, rounds, leadInMs, windowMs } = PLANS[mode]
    const { observer, url: databaseUrl } = arena.database
    const entrant = await arena.enter(VARIANT)
    await fillFinishedKeys(entrant, {
      databaseUrl,
      variant: VARIANT,
      count: expired,
      finishedHoursAgo: ALL_EXPIRED,
    })
    await writeOut(observer)
    const plan = freshLoad(CLIENTS, leadInMs, windowMs)
    await warmUp(stage, [entrant], plan)
    let deleted = 0
    let seconds = 0
    const samples = await alternate([WITHOUT, WITH], rounds, async ({ reaps }) => {
      if (!reaps) return takeSample(arena, entrant, plan)
      const before = await countExpired(observer)
      const start = performance.now()
      await entrant.control('startReaper')
      const sample = await takeSample(arena, entrant, plan)
      await entrant.control('stopReaper')
      seconds += (performance.now() - start) / 1_000
      deleted += before - (await countExpired(observer))
      return sample
    })
    const left = await countExpired(observer)
    await entrant.close()
    if (left === 0) throw new Error('The reaper ran out of expired keys: its rounds were not all under load.')
    return [
      {
        name: 'reaper',
        title: `Fresh requests while the reaper deletes expired keys, ${CLIENTS} clients`,
        unit: 'requests/s',
        compared: 'p99Ms',
        baseline: WITHOUT.label,
        lines: linesOf(samples, 'p99Ms', WITHOUT.label),
        notes: [`The reaper deleted ${short(deleted / seconds)} keys/s meanwhile.`],
      },
    ]
  },
}

async function countExpired(client: Client): Promise<number> {
  const { rows } = await client.query<{ count: string }>(
    `SELECT count(*) FROM "${schemaOfVariant(VARIANT)}".idempotency_keys
      WHERE status = 'finished' AND expires_at <= now()`,
  )
  return Number(rows[0]?.count)
}
