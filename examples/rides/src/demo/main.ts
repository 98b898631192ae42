import { once } from 'node:events'
import { parseArgs } from 'node:util'
import { countedChaos, runChaos, watchedChaos } from './chaos.js'
import { scenarios, type Stage } from './scenarios.js'
import { Story } from './story.js'
import type { Verdict } from './verdict.js'
import { World } from './world.js'

const USAGE = 'npm run rides -- [--json] [--keep] [--chaos N] [--seed N] [--console]'

interface Arguments {
  readonly json: boolean
  readonly keep: boolean
  /** How many rides of chaos; null for the story instead. */
  readonly chaos: number | null
  readonly seed: number
  /** Whether to open the console, and go on with chaos until Ctrl-C. */
  readonly console: boolean
}

/** The exit code that shells report for a program that Ctrl-C has ended. */
const INTERRUPTED = 130

const interruption = new AbortController()
process.exitCode = await main(readArguments())
// The story goes on until it notices that its world has ended, but nobody is listening any more.
if (interruption.signal.aborted) process.exit()

async function main(args: Arguments | null): Promise<number> {
  if (args === null) return 2
  const story = new Story(args.json)
  const interrupted = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]).then(() =>
    interruption.abort(),
  )
  const world = await story.during('PostgreSQL and the payments stand-in start', World.create())
  const judged: Verdict[] = []
  let keepLogs = true
  try {
    const telling = tell(world, story, args, (verdict) => judged.push(verdict))
    const told = await Promise.race([telling, interrupted.then(() => null)])
    if (told === null) {
      const ok = judged.every((verdict) => verdict.ok)
      keepLogs = !ok
      return args.console ? tellWatched(story, judged) : INTERRUPTED
    }
    const ok = told.error === null && told.verdicts.every((verdict) => verdict.ok)
    keepLogs = !ok
    tellVerdicts(story, told.verdicts)
    if (args.json) console.log(JSON.stringify({ ok, ...told }))
    if (!ok) console.error(`Something did not hold. The logs of all processes are in ${world.folder}`)
    if (args.keep || args.console) {
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
  { chaos, seed, console: isWatched }: Arguments,
  judged: (verdict: Verdict) => void,
): Promise<{ verdicts: Verdict[]; error: string | null }> {
  const verdicts: Verdict[] = []
  try {
    story.tell('demo', `PostgreSQL and the payments stand-in are up; logs are in ${world.folder}`)
    await world.startWorker()
    const stage: Stage = { world, story, api: await world.startApi() }
    story.tell('api', `is up at ${stage.api.url}, pid ${stage.api.pid}`)
    if (isWatched) await openConsole(world, story)
    if (isWatched)
      verdicts.push(...(await runChaos(stage, watchedChaos(stage, chaos ?? Infinity, seed), judged)))
    else if (chaos !== null) verdicts.push(...(await runChaos(stage, countedChaos(stage, chaos, seed))))
    else for (const scenario of scenarios) verdicts.push(await scenario(stage))
    await receiptsSent(world)
    await noChargesBesides(world)
    story.tell(
      'worker',
      `has sent ${(await world.receipts()).length} receipts, one for each ride that was charged`,
    )
    return { verdicts, error: null }
  } catch (error) {
    // What ends with the world is no news.
    if (!interruption.signal.aborted) console.error(error)
    return { verdicts, error: error instanceof Error ? error.message : String(error) }
  }
}

async function openConsole(world: World, story: Story): Promise<void> {
  let isFirst = true
  await world.openConsole((address) => {
    story.say(isFirst ? `\nThe console, in one browser: ${address}` : `Another browser: ${address}`)
    isFirst = false
  })
  story.say('Watch the rides there while processes are killed. Ctrl-C ends it.')
}

/** What there is to say when somebody has seen enough. Returns the exit code. */
function tellWatched(story: Story, judged: readonly Verdict[]): number {
  const broken = judged.filter((verdict) => !verdict.ok)
  story.say(
    `\n${judged.length} rides were watched to their end; ${broken.length === 0 ? 'all of them held.' : 'some did not hold:'}`,
  )
  if (broken.length === 0) return 0
  tellVerdicts(story, broken)
  return 1
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
        console: { type: 'boolean', default: false },
      },
    })
    const { json, keep, chaos, seed, console: isWatched } = values
    if (json && isWatched)
      throw new TypeError('--console is for people, and --json is not: leave one of them out.')
    return {
      json,
      keep,
      chaos: chaos === undefined ? null : wholeNumber('--chaos', chaos),
      seed: seed === undefined ? Date.now() % 1_000_000 : wholeNumber('--seed', seed),
      console: isWatched,
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
