import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { migrationSql } from '@pawl/core'
import { describe, expect, test } from 'vitest'
import { pawl } from '../cli/pawl.js'
import { isCopiedPage, ourFiles, ROOT } from '../support/our-files.js'
import { NOT_SEARCHED, RETIRED_WORDS } from './retired-words.js'

/** The retired words in a text, each with its place and what to write instead. */
function retiredIn(where: string, text: string): string[] {
  return text.split('\n').flatMap((line, index) =>
    RETIRED_WORDS.flatMap(({ word, instead, unless = [] }) => {
      const found = word.exec(line)
      if (found === null || unless.some((ordinary) => ordinary.test(line))) return []
      return [`${where}:${index + 1}: instead of '${found[0]}', write ${instead}`]
    }),
  )
}

describe('a retired word has come back in no', () => {
  test('file: code, comments, tests and pages, nor in the name of one', async () => {
    const all = await ourFiles()
    const files = all.filter(
      (name) => !isCopiedPage(name) && !NOT_SEARCHED.some((pattern) => pattern.test(name)),
    )
    expect(files).toEqual(expect.arrayContaining(['README.md', 'packages/core/src/index.ts']))
    const found = await Promise.all(
      files.map(async (name) => [
        ...retiredIn(name, name),
        ...retiredIn(name, await readFile(join(ROOT, name), 'utf8')),
      ]),
    )
    expect(found.flat()).toEqual([])
  })

  test('help of the command line', async () => {
    const { out } = await pawl(['help'])
    const commands = [...out.matchAll(/^ {2}([a-z]+) /gm)].map(([, name = '']) => name)
    expect(commands).toEqual(expect.arrayContaining(['unstick', 'revoke', 'answer']))
    for (const name of commands) {
      const help = await pawl(['help', name])
      expect(retiredIn(`pawl help ${name}`, help.out.replaceAll(/\s+/g, ' '))).toEqual([])
    }
  })

  test('table, column or comment of the schema', () => {
    expect(retiredIn('migrationSql', migrationSql())).toEqual([])
  })
})

describe('the search', () => {
  test.each([
    ['const abandoned = await findKeys()', 'abandon'],
    ['Run pawl resume with a reason.', 'pawl resume'],
    ['await operator.resume(of, because)', 'operator.resum'],
    ['SELECT resumed_at FROM keys', 'resumed_at'],
    ['until a person has resumed it', 'person has resum'],
    ['the lease is released', 'releas'],
    ['a key that was left for the completer', 'left for the completer'],
    ['the caller leaves its phases to a completer', 'leaves its phases to a completer'],
    ['executeUnlisted(engine)', 'Unlisted'],
    ["WHERE NOT starts_with(k.pipeline, 'atomic.')", 'starts_with(k.pipeline'],
    ["return { do: 'stick', phase }", 'stick'],
    ["{ type: 'give_up' }", 'give_up'],
    ['new Bell()', 'Bell'],
    ['await Scene.open(place)', 'Scene'],
    ["import { Actor } from '../cast/actor.js'", 'cast/'],
    ['the rehearsed pipeline', 'rehears'],
    ['const yardstick = clean.upTo.get(point)', 'yardstick'],
    ["{ actors: ['client', 'impostor'] }", 'impostor'],
    ["await visit(trial, 'rival')", 'visit('],
    ['expect(history.told).toEqual([])', 'history.told'],
  ])('finds %j', (line, word) => {
    const [found = '', ...more] = retiredIn('a line', line)
    expect(found.toLowerCase()).toContain(`instead of '${word.toLowerCase()}`)
    expect(more).toEqual([])
  })

  test.each([
    'await engine.resume(keyId)',
    'a retry resumes from the recovery point',
    'a person unsticks it',
    'client.release(error)',
    'the connection is released to its pool',
    'RELEASE SAVEPOINT inner',
    'the completer finishes what is left',
    'what was left behind',
    'a joystick',
    'rows are cast where they come in',
    'wayTo(visit)',
    'what is told is true',
  ])('lets %j be', (line) => expect(retiredIn('a line', line)).toEqual([]))
})

test('the dictionary has every word, once', async () => {
  const page = await readFile(join(ROOT, 'docs/concepts.md'), 'utf8')
  const entries = [...page.matchAll(/^\*\*([^*]+)\*\*:/gm)].map(([, word = '']) => word.toLowerCase())
  expect(entries.toSorted()).toEqual([
    'atomic handler',
    'cache',
    'cache epoch',
    'carried call',
    'effect',
    'enqueued',
    'epoch',
    'fence',
    'grant',
    'holder',
    'intent',
    'key',
    'lease',
    'leg',
    'log position',
    'phase',
    'pipeline',
    'primary',
    'recovery point',
    'replica',
    'request',
    'scope',
    'staged job',
    'stuck',
    'trail',
    'unattended',
  ])
})
