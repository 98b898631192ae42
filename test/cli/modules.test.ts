import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestDatabase } from '../support/test-database.js'
import { engineOn, ORDER, placeOrder } from './filled-database.js'
import { pawl, pawlOn, pawlProcess } from './pawl.js'
import { IS_DEEP } from '../support/amounts.js'

/** Commands that import a module of the user. */

describe('diagram', () => {
  test('draws every pipeline that the module exports, once', async () => {
    const { exit, out } = await pawl(['diagram', 'pipelines.mjs'])
    expect(exit).toBe(0)
    expect([...out.matchAll(/^%% (.+)$/gm)].map(([, name]) => name)).toEqual([
      'listed@1',
      'listed@2',
      'registered@3',
      'single@1',
    ])
    expect(out.match(/^stateDiagram-v2$/gm)).toHaveLength(4)
    expect(out).toContain('prepared --> paid: call paid (keyed), settle')
  })

  test('draws only the pipeline that --name names', async () => {
    const { out } = await pawl(['diagram', 'pipelines.mjs', '--name', 'single', '--json'])
    expect(JSON.parse(out)).toEqual({
      pipelines: [{ name: 'single', version: 1, diagram: expect.stringMatching(/^stateDiagram-v2\n/) }],
    })
    const other = await pawl(['diagram', 'pipelines.mjs', '--name', 'double'])
    expect(other).toMatchObject({
      exit: 1,
      out: '',
      err: expect.stringContaining('listed, listed, registered, single'),
    })
  })

  const WRONG: [path: string, says: string][] = [
    ['no-such-file.mjs', 'cannot be loaded: Cannot find module'],
    ['throws.mjs', 'cannot be loaded: no such configuration'],
    ['no-pipelines.mjs', 'exports no pipeline'],
    ['no-such-file.ts', 'Name the compiled file'],
  ]
  test.each(WRONG)('%s: %s', async (path, says) => {
    const { exit, out, err } = await (IS_DEEP ? pawlProcess(['diagram', path], {}) : pawl(['diagram', path]))
    expect({ exit, out }).toEqual({ exit: 1, out: '' })
    expect(err).toContain(says)
    expect(err).toMatch(/^pawl: [^\n]+\n$/)
  })

  test('ends even if the module would keep the process alive', async () => {
    expect(await pawlProcess(['diagram', 'stays-alive.mjs'], {})).toMatchObject({ exit: 0, err: '' })
  })
})

/** A day from today, as people write it. */
function day(offset: number): string {
  return new Date(Date.now() + offset * 86_400_000).toISOString().slice(0, 10)
}

describe('reconcile', () => {
  let database: TestDatabase
  let folder: string
  let providerKey: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'pawl-cli-'))
    database = await TestDatabase.create()
    const engine = engineOn(database)
    await engine.execute(placeOrder, { scope: 'shop', key: 'k', input: ORDER })
    await engine.close()
    const [effect] = await database.rows<{ provider_key: string }>('SELECT provider_key FROM pawl.effects')
    providerKey = effect?.provider_key ?? ''
  })
  afterAll(async () => {
    await database.drop()
    await rm(folder, { recursive: true, force: true })
  })

  /** A module with the provider's records; they happened now. */
  async function moduleOf(name: string, records: readonly object[], more = ''): Promise<string> {
    const path = join(folder, `${name}.mjs`)
    const list = JSON.stringify(records)
    await writeFile(
      path,
      `export default async () => ${list}.map((r) => ({ at: new Date(), ...r }))\n${more}`,
    )
    return path
  }

  const WINDOW = ['--from', day(-1), '--to', day(2)]

  test('succeeds where both sides agree', async () => {
    const path = await moduleOf('agrees', [{ reference: 'ch_1', providerKey }])
    const { exit, out } = await pawlOn(database, 'reconcile', path, ...WINDOW)
    expect(exit).toBe(0)
    expect(out).toMatch(/^Matched +1$/m)
    expect(out).toMatch(/^Both sides agree\.$/m)
  })

  test('reports what is missing here and what is missing there', async () => {
    const path = await moduleOf('misses', [{ reference: 'ch_planted', detail: { amount: 5 } }])
    const { exit, out } = await pawlOn(database, 'reconcile', path, ...WINDOW)
    expect(exit).toBe(3)
    expect(out).toMatch(/^Missing here: .*\nTIME.*\n.+ ch_planted +— +\{"amount":5\}$/m)
    expect(out).toMatch(/^Missing there: .*\nTIME.*\n.+ ch_1 +paid +place-order@2 +shop +k /m)
    const json = await pawlOn(database, 'reconcile', path, ...WINDOW, '--json')
    expect(json.exit).toBe(3)
    expect(JSON.parse(json.out)).toMatchObject({
      matched: 0,
      missingHere: [{ reference: 'ch_planted' }],
      missingThere: [{ reference: 'ch_1', scope: 'shop', key: 'k' }],
      different: [],
    })
  })

  test('uses differs and effects of the module', async () => {
    const records = [{ reference: 'ch_1', detail: { amount: 5 } }]
    const differs = `export const differs = (effect, { detail }) => 'amount is ' + detail.amount`
    const different = await pawlOn(
      database,
      'reconcile',
      await moduleOf('differs', records, differs),
      ...WINDOW,
    )
    expect(different.exit).toBe(3)
    expect(different.out).toMatch(/^content +amount is 5$/m)
    const other = await moduleOf('other', [], `export const effects = ['refund']`)
    expect(await pawlOn(database, 'reconcile', other, ...WINDOW)).toMatchObject({ exit: 0 })
  })

  test('names a module that has no function, or returns wrong records', async () => {
    const none = await pawlOn(database, 'reconcile', 'no-pipelines.mjs', ...WINDOW)
    expect(none).toMatchObject({ exit: 1, err: expect.stringContaining("or as its export 'records'") })
    const wrong = await pawlOn(database, 'reconcile', await moduleOf('wrong', [{ reference: 7 }]), ...WINDOW)
    expect(wrong).toMatchObject({ exit: 1, out: '', err: expect.stringContaining('reference') })
    const seconds = await moduleOf('seconds', [{ reference: 'ch_1', at: 1_767_225_600 }])
    const notDate = await pawlOn(database, 'reconcile', seconds, ...WINDOW)
    expect(notDate).toMatchObject({ exit: 1, err: expect.stringContaining('it takes a valid Date') })
  })

  // The database fails with the same code when it refuses a connection, but nobody may be sent to look there.
  const REFUSED = `Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })`
  const THROWING: [name: string, text: string, says: string][] = [
    ['throws at once', `export default () => { throw ${REFUSED} }`, 'list its records: connect ECONNREFUSED'],
    ['rejects', `export const records = async () => { throw ${REFUSED} }`, 'list its records: connect'],
    [
      'breaks half-way',
      `export default async function* () { yield { reference: 'ch_1', at: new Date() }; throw ${REFUSED} }`,
      'list its records: connect ECONNREFUSED',
    ],
    [
      'throws no error',
      `export default () => { throw 'page 2 is missing' }`,
      'list its records: page 2 is missing',
    ],
    ['gives no list', `export default async () => 7`, 'list its records: '],
    [
      'differs throws',
      `export default () => [{ reference: 'ch_1', at: new Date() }]; export const differs = () => { throw ${REFUSED} }`,
      'compare: connect ECONNREFUSED',
    ],
  ]
  test.each(THROWING)('names a module whose function fails: %s', async (name, text, says) => {
    const path = join(folder, `${name}.mjs`)
    await writeFile(path, text)
    const plain = await pawlOn(database, 'reconcile', path, ...WINDOW)
    expect(plain).toMatchObject({ exit: 1, out: '' })
    expect(plain.err).toContain(`pawl: Module '${path}' failed to ${says}`)
    const json = await pawlOn(database, 'reconcile', path, ...WINDOW, '--json')
    expect(JSON.parse(json.err)).toMatchObject({ error: { code: 'module' } })
  })

  test('the help and the README say what `at` has to be', async () => {
    const example = 'at: new Date(charge.created * 1000)'
    const help = (await pawl(['help', 'reconcile'])).out.replaceAll(/\s+/g, ' ')
    expect(help).toContain('at has to be a Date')
    expect(help).toContain(example)
    const readme = await readFile(new URL('../../packages/cli/README.md', import.meta.url), 'utf8')
    expect(readme).toContain(example)
  })
})
