import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { until } from '../support/rides-processes.js'
import { onlyDeep } from '../support/amounts.js'

const RIDES = new URL('../../examples/rides/', import.meta.url)
/** Ends a process with this one, also when this one is killed: the system then closes its standard input. */
const LIFE_LINE = 'data:text/javascript,process.stdin.once("close",()=>process.exit(1)).resume().unref()'
const page = await readFile(new URL('README.md', RIDES), 'utf8')

/** The text under a heading, up to the next one of the same level. */
function section(heading: string): string {
  const [, text] = page.split(`\n## ${heading}\n`)
  if (text === undefined) throw new Error(`the README has no section '${heading}'`)
  return text.split(/^## /m)[0] ?? ''
}

/** A module of the example. By its address: the example is not a package that tests could depend on. */
async function load<Module>(path: string): Promise<Module> {
  return (await import(new URL(path, RIDES).href)) as Module
}

test('the diagram matches the pipeline', async () => {
  const { createRideWith } = await load<{ createRideWith: (payments: object) => { diagram(): string } }>(
    'src/create-ride.ts',
  )
  const [, drawn] = /^```mermaid\n(.*?)^```$/ms.exec(page) ?? []
  expect(drawn).toBe(createRideWith({}).diagram())
})

test('every file has its line', async () => {
  const inSource = await readdir(new URL('src/', RIDES), { recursive: true })
  const inTest = await readdir(new URL('test/', RIDES))
  const files = [...inSource, ...inTest].filter((name) => /\.(ts|mjs)$/.test(name))
  const listed = [...section('Files').matchAll(/^ {2}(\S+\.(?:ts|mjs)) {2,}\S/gm)].map(
    ([, name = '']) => name,
  )
  expect(listed.toSorted()).toEqual(files.toSorted())
})

test('every link leads to a file, or to a heading', async () => {
  const anchors = [...page.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading.toLowerCase().replaceAll(' ', '-'),
  )
  for (const [, target = ''] of page.matchAll(/\]\(([^)]+)\)/g)) {
    if (target.startsWith('https:')) continue
    if (target.startsWith('#')) expect(anchors).toContain(target.slice(1))
    else await readFile(new URL(target, RIDES))
  }
})

test('every fault of the stand-in has its row', async () => {
  const source = await readFile(new URL('src/stand-in/faults.ts', RIDES), 'utf8')
  const faults = [...source.matchAll(/^ {2}'(\w+)',$/gm)].map(([, name]) => name)
  const rows = section('The payments stand-in').matchAll(/^\| `([a-z_]+)` +\|/gm)
  expect([...rows].map(([, name]) => name)).toEqual(faults)
})

describe('the environment', () => {
  /** Names and defaults, as the README lists them; null where it says that there is none. */
  const rows = section('The service').matchAll(/^\| `([A-Z_]+)` +\| (?:`(.+?)`|none) +\|/gm)
  const table = new Map([...rows].map(([, name = '', fallback]) => [name, fallback ?? null]))

  test('has the variables that the processes read, and no others', async () => {
    const { read } = await readConfig()
    const worker = await readFile(new URL('src/worker.ts', RIDES), 'utf8')
    const [, names = ''] = /const \{(.*)\} = process\.env$/m.exec(worker) ?? []
    const readByWorker = [...names.matchAll(/[A-Z_]{2,}/g)].map(([name]) => name)
    expect(worker.match(/process\.env\b/g)).toHaveLength(2) // that, and what readConfig is given
    expect([...table.keys()].toSorted()).toEqual([...read, ...readByWorker].toSorted())
  })

  test('has their defaults', async () => {
    const { config } = await readConfig()
    const names = new Map([...table.keys()].map((name) => [camelCase(name), name]))
    const { databaseUrl: _url, stripeApiKey: _key, ...withDefaults } = config
    for (const [member, value] of Object.entries(withDefaults)) {
      expect(table.get(names.get(member) ?? ''), member).toBe(value === null ? null : String(value))
    }
  })
})

onlyDeep(() => {
  describe('the curl lines, against the processes that npm run rides:server starts', () => {
    let server: ChildProcess
    let api: string
    let standIn: string
    let db: pg.Pool

    beforeAll(async () => {
      const script = fileURLToPath(new URL('dist/demo/serve.js', RIDES))
      const env = { ...process.env, DATABASE_URL: inject('databaseUrl'), PORT: '0', HOST: '127.0.0.1' }
      const argv = ['--import', LIFE_LINE, script]
      server = spawn(process.execPath, argv, { env, stdio: ['pipe', 'pipe', 'inherit'] })
      const said = await saidUntil(server, 'Ctrl-C')
      api = /The API is at (http:\/\/[\d.:]+\d)/.exec(said)?.[1] ?? ''
      standIn = /stand-in at (http:\/\/[\d.:]+\d)/.exec(said)?.[1] ?? ''
      db = new pg.Pool({ connectionString: /PostgreSQL at (postgres\S+),/.exec(said)?.[1], max: 1 })
      // The database ends with the server, before this does.
      db.on('error', () => {})
    })
    afterAll(async () => {
      await db.end()
      const ended = once(server, 'exit')
      if (server.kill('SIGTERM')) await ended
    })

    test('answer what the README says', async () => {
      const exchanges = readExchanges(page)
      const statuses = exchanges.map(({ answer }) => answer.status)
      expect(statuses).toEqual([201, 201, 422, 400, 402, 200, 404, 202, 201, 200, 503, 201])

      /** The ids of the README, and those of this run. */
      const ids = new Map<string, string>()
      const translate = (text: string) =>
        [...ids].reduce((done, [theirs, ours]) => done.replaceAll(theirs, ours), text)
      for (const { command, answer } of exchanges) {
        // The reader of the README has waited, and the completer has finished everything.
        await until('the completer', async () => (await db.query(UNFINISHED)).rows.length === 0)
        const { url, ...request } = readCurl(translate(command))
        const target = url.replace('http://127.0.0.1:3000', api).replace('$STAND_IN', standIn)
        const response = await fetch(target, request)
        const body = await response.text()
        for (const [theirs, ours] of pairIds(answer.body, body)) ids.set(theirs, ours)
        expect(
          {
            status: response.status,
            statusText: response.statusText,
            headers: withoutOthers(response.headers),
            body,
          },
          command,
        ).toEqual({
          ...answer,
          headers: answer.headers.map((header) => translate(header)).toSorted(),
          body: translate(answer.body),
        })
      }
      // Three rides were charged, once each, however often they were requested.
      expect(await (await fetch(`${standIn}/ledger`)).json()).toHaveLength(3)
    })
  })
})

const UNFINISHED = `SELECT key FROM pawl.idempotency_keys WHERE status = 'running'`

/** As far as there are defaults: text, numbers and null. */
type Config = Record<string, string | number | null>

interface Exchange {
  readonly command: string
  readonly answer: {
    readonly status: number
    readonly statusText: string
    readonly headers: readonly string[]
    readonly body: string
  }
}

/** Every block with a curl line, and the block of its answer, which follows it. */
function readExchanges(markdown: string): Exchange[] {
  const blocks = markdown.matchAll(/^```sh\n(curl .*?)^```\n\n```http\n(.*?)\n\n(.*?)\n```$/gms)
  const exchanges = [...blocks].map(([, command = '', head = '', body = '']) => {
    const [first = '', ...headers] = head.split('\n')
    const [, status, statusText = ''] = /^HTTP\/1\.1 (\d+) (.+)$/.exec(first) ?? []
    return { command, answer: { status: Number(status), statusText, headers, body } }
  })
  // One without an answer would not be run.
  expect(exchanges).toHaveLength(markdown.match(/^curl /gm)?.length ?? 0)
  return exchanges
}

/** As much of curl's command line as the README uses. */
function readCurl(command: string): { url: string; method: string; headers: Headers; body?: string } {
  const words = [...command.replaceAll('\\\n', ' ').matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(
    ([, single, double, bare]) => single ?? double ?? bare ?? '',
  )
  const [, ...rest] = words
  const headers = new Headers()
  let url = ''
  let body: string | undefined
  for (let word = rest.shift(); word !== undefined; word = rest.shift()) {
    if (word === '-i') continue
    if (word === '-H') {
      const [name = '', value = ''] = (rest.shift() ?? '').split(': ')
      headers.set(name, value)
    } else if (word === '--json' || word === '-d') {
      body = rest.shift() ?? ''
      headers.set('content-type', word === '-d' ? 'application/x-www-form-urlencoded' : 'application/json')
    } else if (word.startsWith('-')) throw new Error(`what is ${word}?`)
    else url = word
  }
  return { url, headers, ...(body === undefined ? { method: 'GET' } : { method: 'POST', body }) }
}

/** The headers that the README says it leaves out. */
function headersLeftOut(): string[] {
  const [, list = ''] = /The headers (.*?) of the stand-in\./s.exec(section('With curl')) ?? []
  const names = [...list.matchAll(/`([a-z-]+)`/g)].map(([, name = '']) => name)
  expect(names.length).toBeGreaterThan(0)
  return names
}

function withoutOthers(headers: Headers): string[] {
  const leftOut = headersLeftOut()
  const all = [...headers].filter(([name]) => !leftOut.includes(name))
  return all.map(([name, value]) => `${name}: ${value}`).toSorted()
}

/** What differs from run to run. */
function pairIds(theirs: string, ours: string): [string, string][] {
  const [before, now] = [theirs, ours].map((text) => JSON.parse(text) as Record<string, unknown>)
  return ['id', 'charge_id', 'location'].flatMap((name) => {
    const pair = [before?.[name], now?.[name]]
    return pair.every((id) => typeof id === 'string') ? [pair as [string, string]] : []
  })
}

/** What `config.ts` reads, where only what has no default is set. */
async function readConfig(): Promise<{ read: Set<string>; config: Config }> {
  const module = await load<{ readConfig: (env: NodeJS.ProcessEnv) => Config }>('src/config.ts')
  const read = new Set<string>()
  const given: NodeJS.ProcessEnv = { DATABASE_URL: 'postgresql://any', STRIPE_API_KEY: 'sk_test_any' }
  const env = new Proxy(given, {
    get(target, name) {
      read.add(String(name))
      return target[String(name)]
    },
  })
  return { read, config: module.readConfig(env) }
}

function camelCase(variable: string): string {
  return variable.toLowerCase().replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase())
}

/** What a process has printed, once it contains a text. */
async function saidUntil(child: ChildProcess, text: string): Promise<string> {
  let said = ''
  for await (const chunk of child.stdout ?? []) {
    said += String(chunk)
    if (said.includes(text)) return said
  }
  throw new Error(`it ended without '${text}': ${said}`)
}
