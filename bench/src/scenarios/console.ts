import type { Client } from 'pg'
import { median } from '../measure/statistics.js'
import { cpuSince, readServerCpu } from '../measure/server-cpu.js'
import { type Figures, figuresSection } from '../report/section.js'
import { ConsoleProcess } from '../run/console-process.js'
import { type PawlVariant, schemaOfVariant } from '../contenders/registry.js'
import { A_DAY_AND_AN_HOUR, fillFinishedKeys } from './finished-keys.js'
import { fillRunningKeys } from './running-keys.js'
import type { Mode, Scenario } from './scenario.js'

interface Plan {
  readonly keys: number
  readonly running: number
  readonly rounds: number
  /** For how long CPU is counted: a hundredth of a second of it is the finest that Linux says of a process. */
  readonly windowMs: number
}

const PLANS: Readonly<Record<Mode, Plan>> = {
  quick: { keys: 100_000, running: 5_000, rounds: 3, windowMs: 5_000 },
  full: { keys: 2_000_000, running: 5_000, rounds: 11, windowMs: 40_000 },
}

const VARIANT: PawlVariant = 'pawl@console'

/** What was read is kept for two seconds: an answer that comes later was read for whoever asks. */
const UNTIL_FORGOTTEN_MS = 2_100

type Row = Figures['rows'][number]

/** What operators' pages cost a database that is not small: how long they wait, and what it takes to keep a page up to date. */
export const console: Scenario = {
  title: 'the console',
  async run({ arena, mode, among, say }) {
    if (among(['pawl']).length === 0) return []
    const { keys, running, rounds, windowMs } = PLANS[mode]
    const { url, observer } = arena.database
    const schema = schemaOfVariant(VARIANT)
    say(`console: ${keys} finished keys, ${running} running`)
    const entrant = await arena.enter(VARIANT)
    await fillFinishedKeys(entrant, {
      databaseUrl: url,
      variant: VARIANT,
      count: keys,
      finishedHoursAgo: A_DAY_AND_AN_HOUR,
    })
    await fillRunningKeys(observer, schema, running)
    await entrant.close()
    const process = await ConsoleProcess.start(url, schema)
    try {
      say('console: answers')
      const answers: Row[] = []
      for (const [label, path] of Object.entries(await pathsOf(observer, schema)))
        answers.push({ label, values: await timesOf(process, path, rounds) })
      const first = median(await firstPages(process, rounds))
      const shares: Row[] = []
      for (const viewers of [0, 1, 3]) {
        say(`console: ${viewers} viewers`)
        shares.push({
          label: `${viewers === 0 ? 'no' : viewers} viewer${viewers === 1 ? '' : 's'}`,
          values: await sharesOf(process, observer, viewers, windowMs),
        })
      }
      const of = `${keys.toLocaleString('en')} finished keys and ${running.toLocaleString('en')} running`
      return [
        figuresSection(
          'console answers',
          `Answers of the console, ms: ${of}`,
          { columns: ['median', 'slowest'], rows: answers },
          [`The first page, its session and its map, one after the other: ${first.toFixed(1)} ms`],
        ),
        figuresSection(
          'console CPU',
          `CPU while pages are open, as a percentage of one core: ${of}`,
          { columns: ['console', 'PostgreSQL', 'both'], rows: shares },
          ['Of PostgreSQL: all of its processes, whatever they did.'],
        ),
      ]
    } finally {
      await process.stop()
    }
  },
}

/** What the pages ask for. */
async function pathsOf(observer: Client, schema: string): Promise<Record<string, string>> {
  const { rows } = await observer.query<{ id: string; scope: string; key: string; provider_key: string }>(
    `SELECT k.id, k.scope, k.key, e.provider_key FROM "${schema}".idempotency_keys AS k
       JOIN "${schema}".effects AS e ON e.key_id = k.id
      WHERE k.status = 'finished' ORDER BY k.expires_at DESC OFFSET 5000 LIMIT 1`,
  )
  const [{ id, scope, key, provider_key: providerKey } = { id: '', scope: '', key: '', provider_key: '' }] =
    rows
  return {
    'the page': '',
    'who is signed in': 'api/session',
    'the map': 'api/flow',
    inbox: 'api/inbox',
    'requests, unfinished': 'api/requests',
    'requests, finished': 'api/requests?status=finished',
    'requests, finished, of one scope': `api/requests?status=finished&scope=${encodeURIComponent(scope)}`,
    'one request': `api/requests/${id}`,
    'search: a key': `api/find?q=${encodeURIComponent(key)}`,
    'search: a scope': `api/find?q=${encodeURIComponent(scope)}`,
    'search: a provider key': `api/find?q=${encodeURIComponent(providerKey)}`,
    'search: nothing': 'api/find?q=nothing-like-it',
    'dead letters': 'api/dead',
    duplicates: 'api/duplicates',
    'reconciliation of a day': 'api/reconciliation',
    interventions: 'api/interventions',
  }
}

async function timesOf(process: ConsoleProcess, path: string, rounds: number): Promise<number[]> {
  const times: number[] = []
  for (let round = 0; round < rounds; round++) {
    await pause(path === 'api/flow' || path === 'api/inbox' ? UNTIL_FORGOTTEN_MS : 0)
    times.push(await process.get(path))
  }
  return [median(times), Math.max(...times)]
}

async function firstPages(process: ConsoleProcess, rounds: number): Promise<number[]> {
  const times: number[] = []
  for (let round = 0; round < rounds; round++) {
    await pause(UNTIL_FORGOTTEN_MS)
    let sum = 0
    for (const path of ['', 'api/session', 'api/flow']) sum += await process.get(path)
    times.push(sum)
  }
  return times
}

/** Of the console, of PostgreSQL, and of both. */
async function sharesOf(
  process: ConsoleProcess,
  observer: Client,
  viewers: number,
  windowMs: number,
): Promise<(number | null)[]> {
  const close = await process.view(viewers)
  // Connections are open, and the first answers have been read.
  await pause(UNTIL_FORGOTTEN_MS)
  const before = [await process.cpuMs(), await readServerCpu(observer)] as const
  const began = performance.now()
  await pause(windowMs)
  const tookMs = performance.now() - began
  const own = (((await process.cpuMs()) - before[0]) / tookMs) * 100
  const usedMs = cpuSince(before[1], await readServerCpu(observer))
  const server = usedMs === null ? null : (usedMs / tookMs) * 100
  await close()
  return [own, server, server === null ? null : own + server]
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
