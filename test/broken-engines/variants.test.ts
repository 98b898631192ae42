import { readdirSync, readFileSync } from 'node:fs'
import * as core from '@pawl/core'
import * as internal from '@pawl/core/internal'
import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { loadedPatches, loadUnbroken, loadVariant } from './load-variant.js'
import { patchSource } from './patch-source.js'
import { RideBench } from './ride-bench.js'
import { RIDES } from './rides.js'
import type { Variant } from './variant.js'
import { VARIANTS } from './variants.js'
import { firstUnlessDeep, onlyDeep } from '../support/amounts.js'

const sourceOf = (file: string): string =>
  readFileSync(new URL(`../../packages/core/src/${file}`, import.meta.url), 'utf8')

const filesOf = ({ replacements }: Pick<Variant, 'replacements'>): string[] => [
  ...new Set(replacements.map(({ file }) => file)),
]

const loadedOf = (name: string): string[] =>
  loadedPatches()
    .filter(({ variant }) => variant === name)
    .map(({ file }) => file)

test('each variant has its own name, and a rule that has to find it', () => {
  expect(new Set(VARIANTS.map(({ name }) => name)).size).toBe(VARIANTS.length)
  for (const { expected } of VARIANTS) {
    expect(expected).not.toHaveLength(0)
    for (const rule of expected) expect(rule).toMatch(/^(I([1-9]|1[0-57])|L1|outcome|oracle)$/)
  }
})

test('the deep files together search every list of variants, each of them once', () => {
  const folder = new URL('.', import.meta.url)
  const listsIn = (file: string): string[] =>
    [...readFileSync(new URL(file, folder), 'utf8').matchAll(/\.\.\.(\w+_VARIANTS)\b/g)].map(
      ([, list = '']) => list,
    )
  const searching = readdirSync(folder).filter((file) => file.endsWith('-engines.deep.test.ts'))
  expect(listsIn('variants.ts')).not.toHaveLength(0)
  expect(searching.flatMap(listsIn).toSorted()).toEqual(listsIn('variants.ts').toSorted())
})

onlyDeep(() => {
  test('the kit that comes with a broken core runs on that core', async () => {
    const [variant] = VARIANTS
    expect(loadedPatches()).toEqual([])
    await import(/* @vite-ignore */ `@pawl/crash-kit?broken=${variant.name}`)
    expect(loadedOf(variant.name)).toEqual(filesOf(variant))
  })
})

describe.each([...VARIANTS])('$name', (variant) => {
  test('replaces texts that the source has exactly once', () => {
    for (const { file, from, to } of variant.replacements) {
      expect(sourceOf(file).split(from)).toHaveLength(2)
      expect(patchSource(variant, file, sourceOf(file))).toContain(to)
    }
  })
})

// Where the kit searches them, all of them are loaded, and run without faults first.
const SOME = VARIANTS.filter((_, at) => at % 6 === 0)

describe.each(firstUnlessDeep(1, SOME))('$name', (variant) => {
  test('has its own module graph, which contains its patches', async () => {
    const broken = await loadVariant(variant.name)
    expect(loadedOf(variant.name).toSorted()).toEqual(filesOf(variant).toSorted())
    expect(Object.keys(broken.core).toSorted()).toEqual(Object.keys(core).toSorted())
    expect(broken.core.createEngine).not.toBe(core.createEngine)
    expect(broken.internal.createProbedEngine).not.toBe(internal.createProbedEngine)
    // Its two entries know each other's engines, and nobody else's.
    const engine = broken.internal.createProbedEngine({ pool: new pg.Pool(), pipelines: [] }, () => {})
    expect(() => broken.core.createBackground({ engine })).not.toThrow()
    expect(() => core.createBackground({ engine })).toThrow('what createEngine returns')
    await engine.close()
  })

  test('runs an undisturbed ride, and replays it', async () => {
    const broken = await loadVariant(variant.name)
    const bench = await RideBench.open(broken.core, RIDES[variant.ride])
    expect(await bench.execute()).toMatchObject({ type: 'completed', response: { status: 201 } })
    expect(await bench.execute()).toMatchObject({ type: 'replayed', response: { status: 201 } })
    expect(await bench.keys()).toEqual([{ status: 'finished' }])
  })
})

onlyDeep(() => {
  describe('the right engine beside them', () => {
    test('is the one that all other tests use', async () => {
      const unbroken = await loadUnbroken()
      expect(unbroken.core.createEngine).toBe(core.createEngine)
      expect(unbroken.internal.createProbedEngine).toBe(internal.createProbedEngine)
    })

    test('distinguishes another request from this one, which a broken engine does not', async () => {
      const { core: broken } = await loadVariant('fingerprint-ignored')
      const [right, wrong] = [
        await RideBench.open(core, RIDES.keyed),
        await RideBench.open(broken, RIDES.keyed),
      ]
      for (const bench of [right, wrong]) expect(await bench.execute()).toMatchObject({ type: 'completed' })
      expect(await right.execute({ amount: 1 })).toEqual({ type: 'mismatch', differs: 'request' })
      expect(await wrong.execute({ amount: 1 })).toMatchObject({ type: 'replayed' })
    })

    test('marks a key stuck whose phase commits by itself', async () => {
      const bench = await RideBench.open(core, RIDES.ends_itself)
      const stuck = { type: 'stuck', reason: 'transaction_ended' }
      expect(await bench.execute()).toMatchObject(stuck)
      expect(await bench.execute()).toMatchObject(stuck)
      expect(await bench.rides()).toHaveLength(1)
    })

    const endingRides = Object.entries(RIDES).filter(([name]) => name !== 'ends_itself')
    test.each(endingRides)('runs the %s ride', async (_, rideOf) => {
      const bench = await RideBench.open(core, rideOf)
      expect(await bench.execute()).toMatchObject({ type: 'completed', response: { status: 201 } })
      expect(await bench.provider.ledger()).toHaveLength(rideOf === RIDES.two_calls ? 2 : 1)
      expect(await bench.rides()).toHaveLength(rideOf === RIDES.parallel || rideOf === RIDES.legs ? 2 : 1)
    })
  })
})

describe('an outdated list of variants is noticed', () => {
  const variant: Variant = {
    ...VARIANTS[0],
    name: 'rotten',
    replacements: [{ file: 'request/a.ts', from: 'one', to: 'two' }],
  }

  test.each([
    ['is gone', 'three', 0],
    ['is there twice', 'one one', 2],
  ])('if its text %s', (_, source, times) => {
    expect(() => patchSource(variant, 'request/a.ts', source)).toThrow(
      `Broken engine 'rotten': request/a.ts contains the text to replace ${times} times instead of once:\none\n`,
    )
  })

  test('and other files are left as they are', () => {
    expect(patchSource(variant, 'request/b.ts', 'one one')).toBe('one one')
  })

  test('if somebody asks for a variant that does not exist', async () => {
    await expect(loadVariant('no-such-thing' as never)).rejects.toThrow(
      "There is no broken engine 'no-such-thing'. It has to be one of: no-fence-in-the-update,",
    )
  })
})
