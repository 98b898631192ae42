import { existsSync, openSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { pawl, pawlInto, pawlProcess } from './pawl.js'

const PACKAGE = new URL('../../packages/cli/', import.meta.url)

/** The terms of one section of the help, with their explanations. */
function termsOf(help: string, title: string): [string, string][] {
  const [, rest = ''] = help.split(`\n${title}\n`)
  const [section = ''] = rest.split('\n\n')
  return [...section.matchAll(/^ {2}(\S+) {2,}(.+)$/gm)].map(([, term = '', about = '']) => [term, about])
}

const COMMANDS = [
  'migrate',
  'doctor',
  'status',
  'list',
  'show',
  'next',
  'dead',
  'console',
  'unstick',
  'revoke',
  'answer',
  'extend',
  'forget',
  'requeue',
  'reap',
  'erase',
  'drain',
  'reconcile',
  'diagram',
  'size',
  'help',
]

test('the help lists every command, and each has its own help', async () => {
  const { exit, out } = await pawl(['help'])
  expect(exit).toBe(0)
  expect(termsOf(out, 'Commands').map(([name]) => name)).toEqual(COMMANDS)
  expect((await pawl(['--help'])).out).toBe(out)
  for (const name of COMMANDS) {
    const help = await pawl(['help', name])
    expect(help.exit).toBe(0)
    expect(help.out).toMatch(new RegExp(`^Usage: pawl ${name}\\b`))
    expect(help.out).toMatch(/^Exit codes\n {2}0 /m)
    expect((await pawl([name, '--help'])).out).toBe(help.out)
    expect((await pawl([name, '-h', 'too', 'many', 'words', 'here'])).out).toBe(help.out)
  }
})

test('the README has the same table of commands and exit codes as the help', async () => {
  const readme = await readFile(new URL('README.md', PACKAGE), 'utf8')
  const help = (await pawl(['help'])).out
  const commands = [...readme.matchAll(/^\| `pawl ([a-z]+)[^|`]*` +\| (.+?) +\|$/gm)].map(
    ([, name, summary]) => [name, summary],
  )
  expect(commands).toEqual(termsOf(help, 'Commands'))
  const exits = [...readme.matchAll(/^\| (\d) +\| (.+?) +\|$/gm)].map(([, code, meaning]) => [code, meaning])
  expect(exits).toEqual(termsOf(help, 'Exit codes'))
})

test('the README has the same usages as the commands', async () => {
  const readme = await readFile(new URL('README.md', PACKAGE), 'utf8')
  const usages = [...readme.matchAll(/^\| `(pawl [a-z]+[^`]*)` +\|/gm)].map(([, usage]) => usage)
  expect(usages).toHaveLength(COMMANDS.length)
  for (const usage of usages) {
    const name = usage?.split(' ')[1] ?? ''
    const [first] = (await pawl(['help', name])).out.split('\n')
    expect(`Usage: ${usage} [options]`).toBe(first)
  }
})

test('--version prints the version of the package', async () => {
  const { version } = JSON.parse(await readFile(new URL('package.json', PACKAGE), 'utf8')) as {
    version: string
  }
  expect(await pawl(['--version'])).toEqual({ exit: 0, out: `${version}\n`, err: '' })
  expect(await pawlProcess(['--version'], {})).toEqual({ exit: 0, out: `${version}\n`, err: '' })
})

const ID = '4a1722e4-98a0-4ec6-8e57-78856650c621'

const WRONG_USES: [argv: string[], says: string][] = [
  [[], 'No command was given'],
  [['stauts'], "no command 'stauts'. Did you mean status?"],
  [['frobnicate'], "no command 'frobnicate'. pawl help"],
  [['help', 'lst'], 'Did you mean list?'],
  [['list', '--pipelin', 'x'], 'no option --pipelin. Did you mean --pipeline?'],
  [['list', '--constructor'], 'no option --constructor.'],
  [['status', '-x'], 'no option -x.'],
  [['list', '--limit'], '--limit needs a value'],
  [['list', '--limit', '0'], "--limit: '0' is not a whole number from 1"],
  [['list', '--limit', '5', '--limit', '6'], '--limit was given twice'],
  [['list', '--pipeline', '--scope', 's'], '--pipeline needs a value'],
  [['list', '--status', 'done'], "'done' is not one of unfinished, running"],
  [['list', '--stuck-reason', 'x'], 'attempts_exhausted'],
  [['list', '--older-than', '5 minutes'], 'like 30s, 5m, 2h, 7d'],
  [['status', '--json=yes'], '--json takes no value'],
  [['status', 'now'], "'now' is one argument too many"],
  [['show', 'scope'], '<key> is missing. Usage: pawl show <scope> <key>'],
  [['show', 'scope', 'key', 'more'], 'quote arguments that contain spaces'],
  [
    ['show'],
    '<scope> is missing. Usage: pawl show <scope> <key> [options], or pawl show --id UUID [options]',
  ],
  [['show', '--id'], '--id needs a value: --id UUID'],
  [['show', '--id', '4a1722e4'], "--id: '4a1722e4' is not an id; it has to be like"],
  [['show', '--id', `{${ID}}`], 'is not an id'],
  [['show', '--id', ID, '--id', ID], '--id was given twice'],
  ...['show', 'unstick', 'revoke', 'answer'].flatMap((name): [string[], string][] => [
    [[name, 's', 'k', '--id', ID], "'s' is one argument too many together with --id. Usage: pawl"],
    [[name, 's', '--id', ID], "'s' is one argument too many together with --id. Usage: pawl"],
    [[name, 's'], '<key> is missing.'],
  ]),
  [['unstick', '--id', ID], '--reason is missing. Usage: pawl unstick <scope> <key> --reason TEXT'],
  [['list', '--id', ID], 'no option --id. Did you mean --ids?'],
  [['unstick', 's', 'k'], '--reason is missing'],
  [['unstick', 's', 'k', '--reason', '  '], '--reason: it is empty'],
  [['unstick', 's', 'k', '--reason', 'r', '--result', '{}', '--not-executed'], 'cannot be combined'],
  [['unstick', 's', 'k', '--reason', 'r', '--phase', 'p'], '--phase needs --not-executed or --result'],
  [['unstick', 's', 'k', '--reason', 'r', '--result', 'ch_1'], '--result: it is not JSON'],
  [['revoke', 's', 'k'], '--reason is missing'],
  [['answer', 's', 'k', '--reason', 'r'], '--status is missing'],
  [['answer', 's', 'k', '--reason', 'r', '--status', '503'], 'not a whole number from 200 to 499'],
  [['answer', 's', 'k', '--reason', 'r', '--status', '200', '--header', 'x'], "like 'location: /rides/1'"],
  [['requeue', '--reason', 'r'], 'Say which jobs in exactly one way'],
  [['requeue', '--all', '--name', 'n', '--reason', 'r'], 'Say which jobs in exactly one way'],
  [['requeue', 'not-an-id', '--reason', 'r'], "'not-an-id' is not the id of a job"],
  [['requeue', '--all'], '--reason is missing'],
  [['drain', 'create-ride'], 'like create-ride@1'],
  [['drain', 'a@1', '--timeout', '1s'], '--timeout can be used only with --wait'],
  [['reconcile', 'm.mjs', '--from', '2026-01-01'], '--to is missing'],
  [['reconcile', 'm.mjs', '--from', '2026-02-31', '--to', '2026-03-01'], 'is not a moment'],
  [['reconcile', 'm.mjs', '--from', '2026-01-01T00:00:00', '--to', '2026-03-01'], 'is not a moment'],
  [['reconcile', 'm.mjs', '--from', '2026-03-02', '--to', '2026-03-01'], '--to has to be after --from'],
  [['size'], '--rate is missing. Usage: pawl size --rate N [options]'],
  [['size', '--rate', '0'], "--rate: '0' is not a whole number from 1"],
  [['size', '--rate', '1.5'], "'1.5' is not a whole number"],
  [
    ['size', '--rate', '5', '--body', '2 kB'],
    "--body: '2 kB' is not a number of bytes; it has to be like 500B, 2kB",
  ],
  [['size', '--rate', '5', '--body', '2KB'], "'2KB' is not a number of bytes"],
  [['size', '--rate', '5', '--retention', '0s'], '--retention: it has to be longer than nothing'],
  [['size', '--rate', '5', '--retention', '1 day'], "--retention: '1 day' is not a duration"],
  [
    ['size', '--rate', '5', '--effect-retention', '1h'],
    'effects cannot be kept for a shorter time than keys',
  ],
  [['size', '--rate', '5', '--commits', 'none'], "'none' is not one of each, fewest"],
  [['size', '--rate', '5', '--memory', '0GB'], '--memory: it has to be more than nothing'],
  [['status', '--database-url', 'mysql://u:secret@h/d'], 'cannot be read'],
  [
    ['status', '--schema', 'No-Schema', '--database-url', 'postgresql://u:secret@h/d'],
    'lower-case identifier',
  ],
  [['status'], 'Set DATABASE_URL'],
]

test.each(WRONG_USES)('pawl %j: %s', async (argv, says) => {
  const { exit, out, err } = await pawl(argv)
  expect({ exit, out }).toEqual({ exit: 2, out: '' })
  expect(err).toContain(says)
  expect(err).toMatch(/^pawl: .+\n$/)
  expect(err).not.toContain('secret')
  const json = await pawl([...argv, '--json'])
  expect(json).toMatchObject({ exit: 2, out: '' })
  expect(JSON.parse(json.err)).toMatchObject({ error: { code: 'usage' } })
})

test('a process prints the same, in one line, and ends with 2', async () => {
  const { exit, out, err } = await pawlProcess(['stauts'], {})
  expect({ exit, out }).toEqual({ exit: 2, out: '' })
  expect(err).toBe("pawl: There is no command 'stauts'. Did you mean status? pawl help lists them all.\n")
})

test('a command that takes an id says so in its usage, on a line of its own', async () => {
  const takers: string[] = []
  for (const name of COMMANDS) {
    const [, second = ''] = (await pawl(['help', name])).out.split('\n')
    if (second.includes('--id')) takers.push(second)
  }
  expect(takers).toEqual([
    '       pawl show --id UUID [options]',
    '       pawl next --id UUID [options]',
    '       pawl unstick --id UUID --reason TEXT [options]',
    '       pawl revoke --id UUID --reason TEXT [options]',
    '       pawl answer --id UUID --reason TEXT --status N [options]',
    '       pawl extend --id UUID --reason TEXT [options]',
    '       pawl forget --id UUID --reason TEXT [options]',
  ])
})

/** A file on a disk without space; Linux has one. */
const full = () => openSync('/dev/full', 'w')

describe.skipIf(!existsSync('/dev/full'))('where standard output cannot be written', () => {
  test('there is one line on standard error, and the exit code is 1', async () => {
    const { exit, err } = await pawlInto(full(), ['help'])
    expect(exit).toBe(1)
    expect(err).toBe('pawl: Cannot write to standard output: ENOSPC: no space left on device, write\n')
  })

  test('there is an object on standard error with --json', async () => {
    const { exit, err } = await pawlInto(full(), ['help', '--json'])
    expect(exit).toBe(1)
    expect(JSON.parse(err)).toEqual({
      error: {
        code: 'failed',
        message: expect.stringContaining('Cannot write to standard output: ENOSPC') as string,
      },
    })
  })

  test('an error that was already printed stays the only one', async () => {
    const { exit, err } = await pawlInto(full(), ['stauts'])
    expect(exit).toBe(2)
    expect(err).toMatch(/^pawl: There is no command 'stauts'\.[^\n]*\n$/)
  })
})

test('the help and the README distinguish what waits for a completer from what waits for a person', async () => {
  const readme = await readFile(new URL('README.md', PACKAGE), 'utf8')
  const texts = [readme.replaceAll('`', '')]
  for (const name of ['status', 'list']) texts.push((await pawl(['help', name])).out)
  for (const text of texts) {
    const line = text.replaceAll(/\s+/g, ' ')
    expect(line).toMatch(/unattended: [^.]*a completer/i)
    expect(line).toMatch(/stuck: a person has to decide, and unsticks or answers (?:it|them)\./i)
  }
})

test('options may stand before the command, and after -- nothing is an option', async () => {
  expect((await pawl(['--schema', 'x', 'help', 'show'])).out).toMatch(/^Usage: pawl show/)
  const { exit, err } = await pawl(['show', '--', '--json', '--help'])
  expect(exit).toBe(2)
  // Printed as text, because this --json is the name of a scope.
  expect(err).toMatch(/^pawl: .*Set DATABASE_URL/)
})
