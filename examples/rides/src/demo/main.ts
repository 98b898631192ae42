import { once } from 'node:events'
import { parseArgs } from 'node:util'
import { runChaos } from './chaos.js'
import { scenarios, type Stage } from './scenarios.js'
import { Story } from './story.js'
import type { Verdict } from './verdict.js'
import { World } from './world.js'

const USAGE = 'npm run rides -- [--json] [--keep] [--chaos N] [--seed N]'

interface Arguments {
  readonly json: boolean
  readonly keep: boolean
  /** How many rides of chaos; null for the story instead. */
  readonly chaos: number | null
  readonly seed: number
}

/** The exit code that shells report for a program that Ctrl-C has ended. */
const INTERRUPTED = 130

process.exitCode = await main(readArguments())
// The story goes on until it notices that its world has ended, but nobody is listening any more.
if (process.exitCode === INTERRUPTED) process.exit()

async function main(args: Arguments | null): Promise<number> {
  if (args === null) return 2
  const story = new Story(args.json)
  const interrupted = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')])
  const world = await story.during('PostgreSQL and the payments stand-in start', World.create())
  let keepLogs = true
  try {
    const told = await Promise.race([tell(world, story, args), interrupted.then(() => null)])
    if (told === null) {
      keepLogs = false
      return INTERRUPTED
    }
    const ok = told.error === null && told.verdicts.every((verdict) => verdict.ok)
    keepLogs = !ok
    tellVerdicts(story, told.verdicts)
    if (args.json) console.log(JSON.stringify({ ok, ...told }))
    if (!ok) console.error(`Something did not hold. The logs of all processes are in ${world.folder}`)
    if (args.keep) {
      story.say(
        `\nEverything is still up: PostgreSQL at ${world.databaseUrl}, the stand-in at ${world.standIn.url},`,
      )
      story.say(
        `the API at ${world.apiUrl}; logs, ledger and receipts are in ${world.folder}. Ctrl-C ends it.`,
      )
      await interrupted
    }
    return ok ? 0 : 1
  } finally {
    await world.end(keepLogs)
  }
}

async function tell(
  world: World,
  story: Story,
  { chaos, seed }: Arguments,
): Promise<{ verdicts: Verdict[]; error: string | null }> {
  const verdicts: Verdict[] = []
  try {
    story.tell('demo', `PostgreSQL and the payments stand-in are up; logs are in ${world.folder}`)
    await world.startWorker()
    const stage: Stage = { world, story, api: await world.startApi() }
    story.tell('api', `is up at ${stage.api.url}, pid ${stage.api.pid}`)
    if (chaos !== null) verdicts.push(...(await runChaos(stage, chaos, seed)))
    else for (const scenario of scenarios) verdicts.push(await scenario(stage))
    await receiptsSent(world)
    await noChargesBesides(world)
    story.tell(
      'worker',
      `has sent ${(await world.receipts()).length} receipts, one for each ride that was charged`,
    )
    return { verdicts, error: null }
  } catch (error) {
    console.error(error)
    return { verdicts, error: error instanceof Error ? error.message : String(error) }
  }
}

/** Every ride that was charged has its receipt, and only one. */
async function receiptsSent(world: World): Promise<void> {
  const { rows } = await world.db.query<{ id: string }>(
    `SELECT r.id FROM rides AS r JOIN pawl.idempotency_keys AS k ON k.scope = r.user_id AND k.id = r.key_id
      WHERE k.status = 'finished' AND r.charge_id IS NOT NULL`,
  )
  const wanted = rows
    .map(({ id }) => id)
    .toSorted()
    .join()
  await world.until('a receipt for each ride', async () => {
    const sent = (await world.receipts()).map(({ id }) => id)
    return sent.toSorted().join() === wanted
  })
}

/** Checks that, once all requests have ended, a ride names every charge in the provider's books. */
async function noChargesBesides(world: World): Promise<void> {
  const { rows } = await world.db.query<{ charge_id: string }>(
    'SELECT charge_id FROM rides WHERE charge_id IS NOT NULL',
  )
  const known = new Set(rows.map(({ charge_id }) => charge_id))
  const besides = (await world.ledger()).filter(({ id }) => !known.has(id))
  if (besides.length > 0)
    throw new Error(`charges that no ride knows: ${besides.map(({ id }) => id).join(', ')}`)
}

function tellVerdicts(story: Story, verdicts: readonly Verdict[]): void {
  story.table(
    ['what was done to it', 'what the customer saw', 'charges', 'rides', 'verdict'],
    verdicts.map(({ done, saw, charges, rides, wrong, note }) => [
      done,
      saw,
      String(charges),
      String(rides),
      wrong.length === 0 ? (note ?? 'held') : `BROKEN: ${wrong.join('; ')}`,
    ]),
  )
}

function readArguments(): Arguments | null {
  try {
    const { values } = parseArgs({
      options: {
        json: { type: 'boolean', default: false },
        keep: { type: 'boolean', default: false },
        chaos: { type: 'string' },
        seed: { type: 'string' },
      },
    })
    const { json, keep, chaos, seed } = values
    return {
      json,
      keep,
      chaos: chaos === undefined ? null : wholeNumber('--chaos', chaos),
      seed: seed === undefined ? Date.now() % 1_000_000 : wholeNumber('--seed', seed),
    }
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n${USAGE}`)
    return null
  }
}

function wholeNumber(option: string, text: string): number {
  const value = Number(text)
  if (Number.isInteger(value) && value > 0) return value
  throw new TypeError(`${option} is '${text}'; it takes a whole number of 1 or more.`)
}
