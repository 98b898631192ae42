import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestDatabase } from '../support/test-database.js'
import { fill, SECRETS } from './filled-database.js'
import { envOf, pawl, pawlOn } from './pawl.js'

/** Looking at a database with keys in every condition. Nothing here changes it. */

let database: TestDatabase
beforeAll(async () => {
  database = await TestDatabase.create()
  await fill(database)
})
afterAll(() => database.drop())

async function idOf(key: string): Promise<string> {
  const [row] = await database.rows<{ id: string }>('SELECT id FROM pawl.idempotency_keys WHERE key = $1', [
    key,
  ])
  return row?.id ?? ''
}

const KEYS = ['done', 'poison', 'in doubt', 'resting', 'left behind']

/** The words of every line, whatever the widths of the columns. */
function words(out: string): string[][] {
  return out.split('\n').map((line) => line.trim().split(/ {2,}/))
}

describe('status', () => {
  test('counts what is unfinished, and says what needs a person', async () => {
    const { exit, out, err } = await pawlOn(database, 'status')
    expect({ exit, err }).toEqual({ exit: 3, err: '' })
    const rows = words(out).map((row) => row.slice(0, 7))
    expect(rows).toContainEqual(['ask-patiently', '1', 'started', '0', '1', '0', '0'])
    expect(rows).toContainEqual(['import-order', '1', 'order_read', '0', '0', '0', '1'])
    expect(rows).toContainEqual(['place-order', '2', 'order_placed', '0', '0', '1', '0'])
    expect(rows).toContainEqual(['send-parcel', '1', 'started', '0', '0', '0', '1'])
    expect(out).toContain('1 attempts_exhausted')
    expect(out).toContain('1 unknown_outcome')
    expect(out).toMatch(
      new RegExp(
        `^Oldest lease +ran out .+ ago: pawl show --schema ${database.schema} 'shop → web' 'left behind'$`,
        'm',
      ),
    )
    expect(out).toMatch(/^Finished +1, of which 0 expired$/m)
    expect(out).toMatch(/^Dead jobs +1$/m)
    expect(out).toMatch(/^! 2 stuck: a person has to decide\./m)
    expect(out).toMatch(/^! 1 dead job\b/m)
  })

  test('reports work that has been waiting for longer than --overdue', async () => {
    const lazy = await pawlOn(database, 'status', '--overdue', '7d')
    expect(lazy.out).not.toContain('completer')
    const strict = await pawlOn(database, 'status', '--overdue', '0s')
    expect(strict.out).toContain('is a completer running')
  })

  test('--json has the same', async () => {
    const { exit, out } = await pawlOn(database, 'status', '--json')
    expect(exit).toBe(3)
    expect(JSON.parse(out)).toMatchObject({
      schema: database.schema,
      finished: { count: 1, isAtLeast: false },
      jobs: { waiting: { count: 0 }, dead: { count: 1 } },
      oldestUnattended: { scope: 'shop → web', key: 'left behind' },
      findings: [expect.stringContaining('2 stuck'), expect.stringContaining('1 dead')],
    })
  })
})

describe('list', () => {
  const FILTERS: [argv: string[], keys: string[]][] = [
    [[], ['poison', 'in doubt', 'resting', 'left behind']],
    [
      ['--status', 'unfinished'],
      ['poison', 'in doubt', 'resting', 'left behind'],
    ],
    [
      ['--status', 'running'],
      ['resting', 'left behind'],
    ],
    [['--status', 'unattended'], ['left behind']],
    [
      ['--status', 'stuck'],
      ['poison', 'in doubt'],
    ],
    [['--status', 'finished'], ['done']],
    [['--pipeline', 'send-parcel'], ['in doubt']],
    [['--pipeline', 'place-order', '--version', '2'], ['left behind']],
    [['--version', '3'], []],
    [['--point', 'order_read'], ['poison']],
    [
      ['--scope', 'shop → web'],
      ['poison', 'in doubt', 'resting', 'left behind'],
    ],
    [['--scope', 'shop'], []],
    [['--stuck-reason', 'unknown_outcome'], ['in doubt']],
    [['--older-than', '1h'], []],
    [
      ['--older-than', '0s', '--limit', '2'],
      ['poison', 'in doubt'],
    ],
  ]

  test.each(FILTERS)('%j', async (argv, expected) => {
    const json = await pawlOn(database, 'list', ...argv, '--json')
    expect(json.exit).toBe(0)
    const { keys } = JSON.parse(json.out) as { keys: { key: string }[] }
    expect(keys.map(({ key }) => key)).toEqual(expected)
    const { exit, out } = await pawlOn(database, 'list', ...argv)
    expect(exit).toBe(0)
    const listed = words(out).filter(([scope]) => scope === 'shop → web')
    expect(listed.map(([, key]) => key)).toEqual(expected)
    expect(out.includes('there may be more')).toBe(argv.includes('--limit'))
  })

  test('prints where each key is, in which condition, and why', async () => {
    const rows = words((await pawlOn(database, 'list')).out)
    const of = (key: string) => rows.find((row) => row[1] === key)
    expect(of('poison')).toEqual([
      'shop → web',
      'poison',
      'import-order@1',
      'order_read',
      'stuck: attempts_exhausted',
      expect.any(String),
      expect.any(String),
      'TypeError: cannot read properties of undefined',
    ])
    expect(of('in doubt')?.[4]).toBe('stuck: unknown_outcome')
    expect(of('resting')?.[4]).toBe('backing off')
    expect(of('left behind')?.[4]).toBe('unattended')
  })

  test('--ids also shows the id of each key', async () => {
    const plain = words((await pawlOn(database, 'list')).out.trimEnd())
    const rows = words((await pawlOn(database, 'list', '--ids')).out.trimEnd())
    expect(rows.map(([, ...rest]) => rest.slice(0, 3))).toEqual(plain.map((row) => row.slice(0, 3)))
    expect(rows.find((row) => row[2] === 'poison')?.[0]).toBe(await idOf('poison'))
  })
})

describe('show', () => {
  test('prints the timeline, effects and jobs of a finished key', async () => {
    const { exit, out } = await pawlOn(database, 'show', 'shop → web', 'done')
    expect(exit).toBe(0)
    const timeline = words(out.split('Timeline\n')[1] ?? '')
    expect(timeline.slice(1, 6).map(([, ...rest]) => (rest.at(0) === '1' ? rest : rest.slice(-3)))).toEqual([
      ['started', '1'],
      [expect.stringMatching(/^\+/), 'order_placed', '1'],
      [expect.stringMatching(/^\+/), 'paid', '1'],
      ['gift_wrapped', '1', 'skipped'],
      [expect.stringMatching(/^\+/), 'finished', '1'],
    ])
    expect(out).toMatch(/^Condition +finished$/m)
    expect(out).toMatch(/^Response +201$/m)
    expect(out).toMatch(/^Effects\nTIME.*\n.+ paid +paid +ch_1 +\S+$/m)
    expect(out).toMatch(/^Jobs\nJOB.*\n\S+ +send_receipt +1 +dead .+ Error: mailbox is full$/m)
    expect(out).not.toContain('Interventions')
  })

  test('prints the last error and the call in doubt of a stuck key', async () => {
    const poison = (await pawlOn(database, 'show', 'shop → web', 'poison')).out
    expect(poison).toMatch(/^Condition +stuck: attempts_exhausted$/m)
    expect(poison).toMatch(/^Last error +TypeError: cannot read properties of undefined$/m)
    const doubt = (await pawlOn(database, 'show', 'shop → web', 'in doubt')).out
    expect(doubt).toMatch(/^Call in doubt +parcel_sent: may have been made; its outcome is unknown$/m)
  })

  test.each(KEYS)('prints the same key by its id: %s', async (key) => {
    const id = await idOf(key)
    for (const form of [[], ['--reveal', '--json']]) {
      const [byName, byId] = [
        await pawlOn(database, 'show', 'shop → web', key, ...form),
        await pawlOn(database, 'show', '--id', id.toUpperCase(), ...form),
      ]
      expect(byId.exit).toBe(0)
      expect(byId.out.replaceAll(/\S+(?: \S+)? ago/g, '')).toBe(
        byName.out.replaceAll(/\S+(?: \S+)? ago/g, ''),
      )
      expect(byId.out).toContain(id)
    }
  })

  test('fails for an id that no key has', async () => {
    const id = randomUUID()
    const { exit, out, err } = await pawlOn(database, 'show', '--id', id)
    expect({ exit, out }).toEqual({ exit: 1, out: '' })
    expect(err).toContain(`There is no key with the id ${id}.`)
  })

  test('--json has row, effects, jobs and interventions', async () => {
    const { exit, out } = await pawlOn(database, 'show', '--json', 'shop → web', 'done')
    expect(exit).toBe(0)
    expect(JSON.parse(out)).toMatchObject({
      key: {
        scope: 'shop → web',
        key: 'done',
        status: 'finished',
        input: { redacted: true, bytes: Buffer.byteLength(JSON.stringify({ card: SECRETS.input })) },
        response: { status: 201, body: { redacted: true } },
      },
      effects: [{ effectName: 'paid', reference: 'ch_1' }],
      jobs: [{ name: 'send_receipt', payload: { redacted: true } }],
      interventions: [],
    })
  })
})

describe('what clients sent and received', () => {
  const LOOKS = [
    ['status'],
    ['list', '--status', 'finished'],
    ['list'],
    ['dead'],
    ['doctor'],
    ['drain', 'import-order@1'],
    ...KEYS.map((key) => ['show', 'shop → web', key]),
  ]

  test.each(LOOKS)('is not printed by %s %s %s', async (...argv) => {
    const given = argv.filter((arg) => arg !== undefined)
    const texts = [await pawlOn(database, ...given), await pawlOn(database, ...given, '--json')]
    for (const { out, err } of texts) {
      for (const secret of Object.values(SECRETS)) expect(out + err).not.toContain(secret)
    }
  })

  test('is printed with --reveal', async () => {
    for (const form of [[], ['--json']]) {
      const { out } = await pawlOn(database, 'show', 'shop → web', 'done', '--reveal', ...form)
      for (const secret of Object.values(SECRETS)) expect(out).toContain(secret)
      const dead = await pawlOn(database, 'dead', '--reveal', ...form)
      expect(dead.out).toContain(SECRETS.payload)
    }
  })

  test('is replaced by its size', async () => {
    const { out } = await pawlOn(database, 'show', 'shop → web', 'done')
    const bytes = Buffer.byteLength(JSON.stringify({ number: SECRETS.body }))
    expect(out).toMatch(new RegExp(`^Body +‹redacted, ${bytes} bytes; --reveal›$`, 'm'))
    expect(out).toMatch(/^Headers +content-type, location$/m)
  })
})

test('dead lists the jobs that were given up, and why', async () => {
  const { exit, out } = await pawlOn(database, 'dead')
  expect(exit).toBe(0)
  const keyId = await idOf('done')
  expect(out).toMatch(new RegExp(`^\\S+ +${keyId} +send_receipt +1 +dead .+ Error: mailbox is full$`, 'm'))
  const other = await pawlOn(database, 'dead', '--name', 'other')
  expect(other).toMatchObject({ exit: 0, out: "No dead job is named 'other'.\n" })
})

test('doctor finds what is wrong, and says which command fixes it', async () => {
  const { exit, out } = await pawlOn(database, 'doctor')
  expect(exit).toBe(3)
  expect(out).toMatch(/^ok +schema +\S/m)
  expect(out).toMatch(
    new RegExp(`^warning +stuck .*\\n +→ .*pawl list --status stuck --schema ${database.schema}`, 'm'),
  )
  expect(out).toMatch(new RegExp(`^warning +jobs .*\\n +→ .*pawl dead --schema ${database.schema}`, 'm'))
})

test('doctor --pipelines finds versions in flight that nobody can run', async () => {
  const { exit, out } = await pawlOn(database, 'doctor', '--pipelines', 'pipelines.mjs', '--json')
  expect(exit).toBe(3)
  const { findings } = JSON.parse(out) as { findings: { check: string; level: string; detail: string }[] }
  const versions = findings.filter(({ check }) => check === 'versions')
  expect(versions.map(({ level }) => level)).toEqual(['error', 'error', 'error', 'error'])
  expect(versions.map(({ detail }) => detail).join()).toContain("'place-order' version 2")
})

describe('colour', () => {
  test('is for terminals', async () => {
    expect((await statusOn({ isTTY: true })).out).toContain(ESCAPE)
    expect((await statusOn({ isTTY: false })).out).not.toContain(ESCAPE)
  })

  test('is left out for people who want none', async () => {
    expect((await statusOn({ isTTY: true, env: { NO_COLOR: '1' } })).out).not.toContain(ESCAPE)
    expect((await statusOn({ isTTY: true, env: { TERM: 'dumb' } })).out).not.toContain(ESCAPE)
    expect((await statusOn({ isTTY: true, env: { NO_COLOR: '' } })).out).toContain(ESCAPE)
  })

  test('is not in JSON', async () => {
    const { out } = await statusOn({ isTTY: true }, '--json')
    expect(out).not.toContain(ESCAPE)
  })
})

const ESCAPE = '\u001B['

function statusOn(options: NonNullable<Parameters<typeof pawl>[1]>, ...argv: string[]) {
  const env = { ...envOf(database), ...options.env }
  return pawl(['status', '--schema', database.schema, ...argv], { ...options, env })
}
