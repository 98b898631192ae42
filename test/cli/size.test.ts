import { readFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { bytesText, numberText, percentText } from '../../packages/cli/src/render/amount.js'
import { parseBytes } from '../../packages/cli/src/parse/bytes.js'
import type { Bound } from '../../packages/cli/src/size/advise.js'
import type { Estimate } from '../../packages/cli/src/size/estimate.js'
import { pawl } from './pawl.js'

interface Sized {
  readonly estimate: Estimate
  readonly bounds: readonly Bound[]
  readonly advice: readonly string[]
}

async function size(...argv: string[]): Promise<Sized> {
  const { exit, out } = await pawl(['size', '--json', ...argv])
  expect(exit).toBe(0)
  return JSON.parse(out) as Sized
}

const adviceOf = async (...argv: string[]): Promise<string> => (await size(...argv)).advice.join('\n')

test.each(['packages/cli/README.md', 'docs/beyond-one-machine.md'])(
  '%s shows what it prints',
  async (page) => {
    const text = await readFile(new URL(`../../${page}`, import.meta.url), 'utf8')
    const shown = [...text.matchAll(/^\$ pawl size (.+)\n([^`]*)/gm)]
    expect(shown.length).toBeGreaterThan(0)
    for (const [, options = '', output] of shown) {
      expect((await pawl(['size', ...options.split(' ')])).out.trim()).toBe(output?.trim())
    }
  },
)

describe('an estimate', () => {
  test('grows with the rate: keys, log, dead rows, CPU', async () => {
    const one = (await size('--rate', '100')).estimate
    const ten = (await size('--rate', '1000')).estimate
    expect(one.keys).toBe(100 * 86_400)
    for (const name of [
      'keys',
      'effects',
      'serverCores',
      'nodeCores',
      'connections',
      'randomIndexBytes',
    ] as const) {
      expect(ten[name] / one[name], name).toBeCloseTo(10)
    }
    expect(ten.log.perSecond / one.log.perSecond).toBeCloseTo(10)
    // A larger table is vacuumed just as often, and that takes longer.
    expect(ten.vacuum.everySeconds / one.vacuum.everySeconds).toBeCloseTo(1)
    expect(ten.vacuum.seconds / one.vacuum.seconds).toBeCloseTo(10)
  })

  test('replays take CPU and connections, and nothing else', async () => {
    const without = (await size('--rate', '100')).estimate
    const withReplays = (await size('--rate', '100', '--replays', '200')).estimate
    expect(withReplays.serverCores).toBeGreaterThan(without.serverCores)
    expect(withReplays.connections).toBeGreaterThan(without.connections)
    const { serverCores: _c, nodeCores: _n, connections: _b, ...rest } = without
    expect(withReplays).toMatchObject(rest)
  })

  test('what the constants are and where they come from is in the JSON', async () => {
    const { out } = await pawl(['size', '--json', '--rate', '1'])
    const { constants } = JSON.parse(out) as { constants: Record<string, unknown> }
    expect(constants['logPerCall']).toEqual({
      value: expect.any(Number),
      unit: 'B',
      from: 'test/bench/size-constants.test.ts',
    })
  })
})

describe('the advice', () => {
  const SHORT = ['--effect-retention', '1d']

  test('one server does for a small service', async () => {
    const advice = await adviceOf('--rate', '50', ...SHORT)
    expect(advice).toContain('One server does.')
    expect(advice).toContain('No partitions are needed')
    expect(advice).not.toMatch(/Effects are|do not fit/)
  })

  test('effects that are kept for long fill the disk, and do not fit in memory', async () => {
    const advice = await adviceOf('--rate', '500')
    expect(advice).toMatch(/Effects are 9\d % of the disk/)
    expect(advice).toContain('do not fit in memory')
  })

  test('vacuum asks for partitions before CPU asks for another server', async () => {
    const advice = await adviceOf('--rate', '2000', ...SHORT)
    expect(advice).toContain('Partition the tables')
    expect(advice).toContain('One server does.')
  })

  test('a million requests a second do not fit on one server, and no reaper keeps up by default', async () => {
    const { advice, bounds } = await size('--rate', '1000000', ...SHORT)
    expect(advice.join('\n')).toContain('One server does not do')
    expect(advice.join('\n')).toContain('One reaper at its default pace does not keep up')
    expect(bounds.map(({ share }) => share)).toEqual(
      bounds.map(({ share }) => share).toSorted((a, b) => b - a),
    )
  })
})

test.each([
  ['500', 500],
  ['500B', 500],
  ['2kB', 2_000],
  ['1.5MB', 1_500_000],
  ['64GB', 64e9],
  ['1TB', 1e12],
])('%s is %i bytes', (text, bytes) => expect(parseBytes(text)).toBe(bytes))

test.each([
  [0, '0.00 B'],
  [840, '840 B'],
  [3_149, '3.1 kB'],
  [999.6, '1.0 kB'],
  [56.4e9, '56 GB'],
  [2e16, '20 PB'],
])('%d bytes are written as %s', (bytes, text) => expect(bytesText(bytes)).toBe(text))

test('numbers have two digits, and shares are never nothing', () => {
  expect([0.614, 6.54, 65.4, 6_543].map(numberText)).toEqual(['0.61', '6.5', '65', '6,500'])
  expect([0, 0.001, 0.184, 4.2].map(percentText)).toEqual(['0 %', 'under 1 %', '18 %', '420 %'])
})
