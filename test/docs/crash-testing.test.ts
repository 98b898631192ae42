import { randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { type CrashKit, crashKit, type Fault, fakeProvider, Finding } from '@pawl/crash-kit'
import type { Pipeline } from '@pawl/core'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { readExhaustiveOptions } from '../../packages/crash-kit/src/explore/exhaustive-options.js'
import { FAULTS } from '../../packages/crash-kit/src/faults/faults.js'
import { Coverage } from '../../packages/crash-kit/src/finding/coverage.js'
import { titleOf } from '../../packages/crash-kit/src/finding/describe-position.js'
import { parseReplay } from '../../packages/crash-kit/src/plan/replay-line.js'
import { ruleTitle } from '../../packages/crash-kit/src/finding/rule-titles.js'
import { ROLES } from '../../packages/crash-kit/src/races/stepped-actor.js'
import { TestDatabase } from '../support/test-database.js'
import { onlyDeep } from '../support/amounts.js'

const KIT = new URL('../../packages/crash-kit/src/', import.meta.url)
const DOCS = new URL('../../docs/', import.meta.url)
const guide = await readFile(new URL('crash-testing.md', DOCS), 'utf8')
const reference = await readFile(new URL('crash-testing-reference.md', DOCS), 'utf8')
const pages = `${guide}\n${reference}`

/** A folder that git, compiler and linter ignore. Each run has a new one, since two may run at once. */
const FOLDER = fileURLToPath(new URL(`../dist/crash-testing-${randomUUID()}`, import.meta.url))

type Charge = (
  amount: number,
  options: { idempotencyKey: string; signal: AbortSignal },
) => Promise<{ id: string }>

/** What the page calls a database: rides, in the search path of `pool`. */
let database: TestDatabase

beforeAll(async () => {
  database = await TestDatabase.create()
  await database.rows(`
    CREATE TABLE ${database.businessSchema}.rides (
      id uuid PRIMARY KEY DEFAULT gen_random_uuid(), rider text NOT NULL, amount integer NOT NULL, charge_id text)`)
  Object.assign(globalThis, { pool: database.pool() })
  await mkdir(FOLDER, { recursive: true })
  for (const [, name = '', code = ''] of pages.matchAll(/^```ts\n\/\/ ([a-z-]+\.ts)\n(.*?)^```$/gms))
    await writeFile(join(FOLDER, name), code)
})
afterAll(async () => {
  await rm(FOLDER, { recursive: true, force: true })
  await database.drop()
})

/** The text under a heading of either page, up to the next heading of the same level. */
function section(heading: string): string {
  const [, text] = pages.split(`\n## ${heading}\n`)
  if (text === undefined) throw new Error(`the pages have no section '${heading}'`)
  return text.split(/^## /m)[0] ?? ''
}

/** The cells of a section's table, row by row, without the header. */
function rowsOf(heading: string): string[][] {
  const rows = [...section(heading).matchAll(/^\| (.+) \|$/gm)].map(([, row = '']) =>
    row.split(' | ').map((cell) => cell.trim()),
  )
  return rows.slice(2)
}

function textBlock(heading: string): string {
  return /^```text\n(.*?)\n```$/ms.exec(section(heading))?.[1] ?? ''
}

function unquoted(cell: string | undefined): string {
  return (cell ?? '').replaceAll('`', '')
}

async function load<Module>(name: string): Promise<Module> {
  return (await import(pathToFileURL(join(FOLDER, name)).href)) as Module
}

/** Runs the crash test of a section, with fewer cases where it says so, and returns its kit. */
async function runTest(
  heading: string,
  ...changes: readonly [from: string, to: string][]
): Promise<CrashKit> {
  const blocks = [...section(heading).matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = '']) => code)
  const shown = blocks.find((code) => code.includes('= crashKit(')) ?? ''
  for (const [from] of changes) expect(shown).toContain(from)
  const changed = changes.reduce((code, [from, to]) => code.replace(from, to), shown)
  const name = `${randomUUID()}.ts`
  await writeFile(join(FOLDER, name), `${changed}\nexport { kit }\n`)
  const { kit } = await load<{ kit: CrashKit }>(name)
  onTestFinished(() => kit.close())
  return kit
}

const withoutIds = (text: string) =>
  text
    .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'UUID')
    .replaceAll(/\b\d+ ms\b/g, 'N ms')
    // Columns are as wide as their texts.
    .replaceAll(/ {2,}/g, '  ')

describe('the pages can be followed:', () => {
  onlyDeep(() => {
    test('the quick start, and what it covers', async () => {
      const kit = await runTest('Quick start', [', depth: 2', ''], ['runs: 200', 'runs: 5'])
      expect(kit.coverage()).toBe(textBlock('Coverage'))
      const [, positions, cases] =
        /passes (\d+) positions.*?has (\d+) cases/s.exec(section('Cases and positions')) ?? []
      expect(kit.coverage()).toContain(`${cases} cases, ${positions} of ${positions} positions reached`)
      expect(section('What runs')).toContain(`has ${cases} cases at depth 1`)
      expect(kit.casesRun).toBe(Number(cases) + 5)
    })
  })

  onlyDeep(() => {
    test('statements that are sent one by one have positions between them', async () => {
      const [, positions] = /then passes (\d+) positions/.exec(section('Cases and positions')) ?? []
      const kit = await runTest(
        'Quick start',
        ['provider, request })', 'provider, request, engine: { pipelining: false } })'],
        ["'crash', 'throw', 'lostCommitAck', 'providerTimeout'], depth: 2", "'crash']"],
        ['runs: 200', 'runs: 1'],
      )
      expect(kit.coverage()).toMatch(new RegExp(`crash +${positions} +${positions}`))
      const between = [...section('Cases and positions').matchAll(/`(ride_created\/\w+#1:after)`/g)].map(
        ([, at]) => at,
      )
      expect(between).toHaveLength(2)
      for (const at of between) await kit.replay(`crash@${at}`)
    })
  })

  onlyDeep(() => {
    test("Stripe's SDK at the fake provider", async () => {
      const kit = await runTest('Providers', ["'crash', ", ''])
      expect(kit.coverage()).toMatch(/providerDisconnect\.after +1 +1/)
    })
  })

  onlyDeep(() => {
    test('tables by prepare', async () => {
      const kit = await runTest('Tables', ['prepare, // and no pool', 'prepare, pool, //'])
      expect(kit.coverage()).toMatch(/crash +22 +22/)
    })
  })

  onlyDeep(() => {
    test('serverCrash, which every sound request survives', async () => {
      const faults = "faults: ['crash', 'throw', 'lostCommitAck', 'providerTimeout'], depth: 2"
      const kit = await runTest('Quick start', [faults, "faults: ['serverCrash']"], ['runs: 200', 'runs: 1'])
      expect(kit.coverage()).toMatch(/serverCrash +2 +2/)
    })
  })

  onlyDeep(() => {
    test('failover, which a request that follows from its input survives', async () => {
      const faults = "faults: ['crash', 'throw', 'lostCommitAck', 'providerTimeout'], depth: 2"
      const kit = await runTest('Quick start', [faults, "faults: ['failover']"], ['runs: 200', 'runs: 1'])
      // Of four commits, at nine positions.
      expect(kit.coverage()).toMatch(/failover\.all +9 +9/)
      expect(kit.coverage()).toMatch(/failover\.3 +1 +1/)
    })
  })

  onlyDeep(() => {
    test('several providers', async () => {
      const kit = await runTest('Several providers')
      expect(kit.coverage()).toMatch(/providerTimeout\.before +2 +2/)
    })
  })

  onlyDeep(() => {
    test('a fault of your own, and its replay', async () => {
      const kit = await runTest('A fault of your own', [", 'crash'], depth: 2", ']'])
      expect(kit.coverage()).toMatch(/ridesLocked +1 +1/)
      const { ridesLocked } = await load<{ ridesLocked: Fault }>('rides-locked.ts')
      const [, line = ''] =
        /`kit\.replay\('(.+?)', \[ridesLocked\]\)`/.exec(section('A fault of your own')) ?? []
      await expect(kit.replay(line)).rejects.toMatchObject({ code: 'PAWL_KIT_INVALID_REPLAY' })
      const cases = kit.casesRun
      await kit.replay(line, [ridesLocked])
      expect(kit.casesRun).toBe(cases + 1)
    })
  })

  test('the finding, word for word except for ids and times', async () => {
    const { createRideWith } = await load<{
      createRideWith: (charge: Charge) => Pipeline<never, { amount: number }>
    }>('create-ride-with.ts')
    const { withFreshKeys } = await load<{ withFreshKeys: (charge: Charge) => Charge }>('with-fresh-keys.ts')
    const provider = fakeProvider()
    const charge: Charge = (amount, options) => provider.send({ amount }, options)
    const request = { scope: 'rider-1', input: { amount: 1200 } }
    const pipeline = () => createRideWith(withFreshKeys(charge))
    const kit = crashKit({ pipeline, pool: database.pool(), provider, request })
    onTestFinished(() => kit.close())
    const finding = await kit.exhaustive({ faults: ['crash'] }).catch((error: unknown) => error)
    if (!(finding instanceof Finding)) throw finding
    expect(withoutIds(finding.message)).toBe(withoutIds(textBlock('Reading a finding')))
    expect(guide).toContain(`await kit.replay('${finding.replay}')`)
    await expect(kit.replay(finding.replay)).rejects.toThrow('I2 (one effect per key)')
    const again = kit.replay('providerTimeout.after@charge_created/call#1:before')
    const { timeline } = (await again.catch((error: unknown) => error)) as Finding
    expect(timeline.map(({ what }) => what)).toContain("provider's time-out after it executed")
  })
})

describe('the tables of the pages have', () => {
  test('every fault, with its forms', () => {
    const rows = rowsOf('Faults')
    expect(rows.map(([name]) => unquoted(name))).toEqual(Object.keys(FAULTS))
    for (const [name, does] of rows) {
      const ids = FAULTS[unquoted(name) as keyof typeof FAULTS].map(({ id }) => id)
      const forms = ids.filter((each) => each.includes('.')).map((each) => each.split('.')[1] ?? '')
      // Numbered forms are listed only until the pattern is clear.
      for (const form of forms.filter((each) => !(Number(each) > 2))) expect(does).toContain(`\`.${form}\``)
    }
  })

  test('the faults that are tried unless told otherwise', () => {
    expect(section('Faults')).toContain('Without `faults`, the kit tries all except `failover`.')
    const { faults } = readExhaustiveOptions({}, { hasProvider: true, hasChild: false })
    const all: readonly Fault[] = Object.values(FAULTS).flat()
    expect(faults.map(({ id }) => id)).toEqual(
      all.map(({ id }) => id).filter((id) => !id.startsWith('failover.')),
    )
  })

  test('every actor', () => {
    expect(rowsOf('Races').map(([role]) => unquoted(role))).toEqual(ROLES)
  })

  test('every rule, in its own words', async () => {
    const rows = rowsOf('What must hold')
    for (const [rule, title] of rows) expect(ruleTitle(unquoted(rule))).toBe(`${unquoted(rule)} (${title})`)
    const source = await readFile(new URL('finding/rule-titles.ts', KIT), 'utf8')
    const rules = [...source.matchAll(/^ {2}\['(\w+)', /gm)].map(([, rule = '']) => rule)
    expect(rows.map(([rule]) => unquoted(rule)).toSorted()).toEqual(rules.toSorted())
  })

  test('every lint, in its own words', async () => {
    const files = ['oracle/foreign-requests.ts', 'actors/trial.ts', 'oracle/decisions.ts']
    const sources = await Promise.all(files.map((name) => readFile(new URL(name, KIT), 'utf8')))
    const titles = sources.flatMap((source) =>
      [...source.matchAll(/(?:\blint\(\s*|rule: 'lint',\s+title: )'(.+?)',/g)].map(([, title]) => title),
    )
    expect(titles.length).toBeGreaterThan(3)
    expect(rowsOf('Lints').map(([title]) => title)).toEqual(titles)
  })

  test('every error code', async () => {
    const files = (await readdir(KIT, { recursive: true })).filter((name) => name.endsWith('.ts'))
    const sources = await Promise.all(files.map((name) => readFile(new URL(name, KIT), 'utf8')))
    const codes = new Set(sources.flatMap((source) => source.match(/\bPAWL_KIT_[A-Z_]+/g) ?? []))
    const rows = rowsOf('Errors')
    expect(rows.map(([code]) => unquoted(code)).toSorted()).toEqual([...codes].toSorted())
    expect(rows.filter(([, when = '']) => when.length < 20)).toEqual([])
  })

  test('every name of a test', () => {
    const points = ['started', 'ride_created', 'charge_created', 'finished']
    const shape = { points, foreign: [{ phase: 'charge_created', guarantee: 'keyed' as const }] }
    const all: readonly Fault[] = Object.values(FAULTS).flat()
    const rows = rowsOf('Cases and positions')
    expect(rows.length).toBeGreaterThan(3)
    for (const [name, line] of rows) {
      const replay = parseReplay(unquoted(line))
      if (replay.kind !== 'plan') throw new Error(`${line} is no plan`)
      expect(titleOf(replay.plan, (id) => all.find((fault) => fault.id === id)?.title ?? '', shape)).toBe(
        name,
      )
    }
  })
})

test('no heading is on both pages', () => {
  const headings = [...pages.matchAll(/^## (?!How this page is tested)(.+)$/gm)].map(([, heading]) => heading)
  expect(headings).toEqual([...new Set(headings)])
})

test('positions of a recovery count as reached where a fault has fired', () => {
  const coverage = new Coverage()
  const plan = [{ attempt: 1, fault: 'crash', at: 'reserve/take_over_key#1:after' }] as const
  coverage.addCase(plan)
  expect(coverage.render()).toContain('0 of 1 positions reached')
  coverage.addFired(plan, plan[0])
  expect(coverage.render()).toContain('1 of 1 positions reached')
})

test('wrong options are reported as errors of the kit', async () => {
  const { createRideWith } = await load<{
    createRideWith: (charge: Charge) => Pipeline<never, { amount: number }>
  }>('create-ride-with.ts')
  const refused = expect.objectContaining({ name: 'KitError', code: 'PAWL_KIT_INVALID_OPTION' }) as Error
  const request = { scope: 'rider-1', input: { amount: 1200 } }
  const pipeline = () => createRideWith(() => Promise.resolve({ id: 'any' }))
  expect(() => crashKit({ pipeline, request, ignored: [] } as never)).toThrow(refused)
  const kit = crashKit({ pipeline, request })
  await expect(kit.exhaustive({ faults: ['crush' as never] })).rejects.toThrow(refused)
  await expect(kit.races({ runs: 0 })).rejects.toThrow(refused)
})
