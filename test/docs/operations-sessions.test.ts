import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { judgeDurability } from '../../packages/core/src/operate/judge-server.js'
import { type End, pawlOn } from '../cli/pawl.js'
import { TestDatabase } from '../support/test-database.js'
import { reference, runbook } from './operations-pages.js'
import { day, Story } from './operations-story.js'

/**
 * Each page is a session at a terminal: its commands are run here one after the other, and have to print what the page
 * shows, apart from times and ids.
 */

/** One command of a page, with the output that the page shows. */
interface Shown {
  readonly command: string
  readonly output: string
}

function shownCommands(page: string): Shown[] {
  const blocks = [...page.matchAll(/^```console\n(.*?)^```$/gms)].map(([, block = '']) => block)
  return blocks.flatMap((block) =>
    block
      .split(/^\$ /m)
      .slice(1)
      .map((part) => {
        const end = part.indexOf('\n')
        return { command: part.slice(0, end), output: part.slice(end + 1) }
      }),
  )
}

/** Splits a command as a shell does. The pages use no quotes but single ones. */
function words(command: string): string[] {
  return [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '')
}

/** Removes what differs from run to run, and what depends on the server. */
function normalised(text: string, schema = 'pawl'): string {
  return text
    .replaceAll(` --schema ${schema}`, '')
    .replaceAll(schema, 'pawl')
    .replaceAll(/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/g, 'ID')
    .replaceAll(/\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:Z|\.\d{3})/g, 'MOMENT')
    .replaceAll(/\([0-9a-f]{16}\)/g, '(HASH)')
    .replaceAll(/\+?\b(?:[\d.]+(?:ms|[smhd])\b ?)+/g, 'SPAN ')
    .replaceAll(/\bpawl_[\w-]{20,}/g, 'PROVIDER_KEY')
    .replaceAll(
      /^(?:ok|warning|error) +(?:server|path|durability|clock|pool|timeouts|bloat) .*\n(?: +→ .*\n)?/gm,
      '',
    )
    .replaceAll(/ +/g, ' ')
    .replaceAll(/ $/gm, '')
}

describe('the session of each page', () => {
  let database: TestDatabase
  let story: Story
  let folder: string
  beforeEach(async () => {
    database = await TestDatabase.createPlain()
    story = new Story(database)
    await story.fill()
    folder = await mkdtemp(join(tmpdir(), 'pawl-operations-'))
  })
  afterEach(async () => {
    await database.drop()
    await rm(folder, { recursive: true })
  })

  /** The provider's list as the page's module returns it; one charge was made by hand. */
  async function chargesModule(): Promise<string> {
    const path = join(folder, 'charges.mjs')
    const byHand = { id: 'ch_by_hand', at: new Date() }
    const records = [...story.world.charges.values(), byHand].map(({ id, at }) => ({ reference: id, at }))
    const revived = `${JSON.stringify(records)}.map((each) => ({ ...each, at: new Date(each.at) }))`
    await writeFile(path, `export const effects = ['charge_created']\nexport default () => ${revived}\n`)
    return path
  }

  async function pawlCommand(argv: string[]): Promise<End> {
    if (argv[0] !== 'reconcile') return pawlOn(database, ...argv)
    return pawlOn(database, 'reconcile', await chargesModule(), '--from', day(-1), '--to', day(2))
  }

  async function runSession(page: string): Promise<void> {
    let exit = 0
    for (const { command, output } of shownCommands(page)) {
      const [name, ...argv] = words(command.replace(/ #.*/, ''))
      const shown = normalised(output)
      if (command === 'echo $?') {
        expect({ command, exit: `${exit}\n` }).toEqual({ command, exit: shown })
      } else if (name === 'sleep') {
        await story.complete()
      } else {
        expect(name).toBe('pawl')
        const end = await pawlCommand(argv)
        exit = end.exit
        const printed = normalised(end.out + end.err, database.schema)
        expect({ command, printed }).toEqual({ command, printed: shown })
      }
    }
  }

  async function keysLeft(): Promise<unknown[]> {
    const keys = await database.rows<{ key: string; status: string; response_status: number | null }>(
      'SELECT key, status, response_status FROM pawl.idempotency_keys ORDER BY key',
    )
    return keys.map(({ key, status, response_status }) => [key, status, response_status])
  }

  test('of the runbook prints what the page shows, and leaves nothing stuck', async () => {
    await runSession(runbook)
    await story.complete()

    expect(await keysLeft()).toEqual([
      ['permit-1005', 'finished', 201],
      ['ride-1001', 'finished', 201],
      ['ride-1002', 'finished', 201],
      ['ride-1003', 'finished', 201],
      ['ride-1004', 'finished', 410],
      ['ride-1006', 'finished', 201],
      ['ride-1007', 'running', null],
    ])
    expect(story.world.faxes).toBe(1)
    expect([...story.world.charges.values()].map(({ id }) => id).toSorted()).toEqual(
      [1001, 1002, 1003, 1006, 1007].map((trip) => `ch_${trip}`),
    )
  })

  test('of the reference prints what the page shows, and decides nothing', async () => {
    await runSession(reference)

    expect(await keysLeft()).toEqual([
      ['permit-1005', 'stuck', null],
      ['ride-1001', 'finished', 201],
      ['ride-1002', 'stuck', null],
      ['ride-1003', 'stuck', null],
      ['ride-1004', 'stuck', null],
      ['ride-1006', 'finished', 201],
      ['ride-1007', 'running', null],
    ])
    expect(story.world.faxes).toBe(1)
  })

  test('together show every command that a person needs', () => {
    const shown = [...shownCommands(runbook), ...shownCommands(reference)]
    const names = new Set(shown.map(({ command }) => command.split(' ').slice(0, 2).join(' ')))
    for (const name of [
      'doctor',
      'status',
      'list',
      'show',
      'unstick',
      'answer',
      'dead',
      'requeue',
      'reconcile',
    ])
      expect(names).toContain(`pawl ${name}`)
  })

  test('of the reference shows what doctor says about a server that keeps its commits', () => {
    const [finding] = judgeDurability({ fsync: 'on', synchronous_commit: 'on', full_page_writes: 'on' })
    expect(reference).toContain(`ok       durability  ${finding?.detail}\n`)
  })
})
