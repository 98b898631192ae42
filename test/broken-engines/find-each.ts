import { afterAll, describe, expect, test, vi } from 'vitest'
import { findWeakness } from './find-weakness.js'
import { loadVariant } from './load-variant.js'
import { RIDES } from './rides.js'
import { type VariantName, variantOf } from './variants.js'

/** A weakness that only a race shows takes hundreds of schedules. */
const TIMEOUT_MS = 300_000

/** Lets the kit search each of these engines. */
export function findEach(names: readonly VariantName[]): void {
  vi.setConfig({ testTimeout: TIMEOUT_MS })
  const found: string[] = []
  afterAll(() => console.log(found.join('\n')))
  describe('the kit finds every broken engine', () => {
    test.each(names.map((name) => ({ engine: undefined, without: [], ...variantOf(name), name })))(
      '$name: $broken',
      async ({ name, ride, engine, without, search, expected }) => {
        const broken = await loadVariant(name)
        const left = Object.fromEntries(without.map((guard) => [guard, undefined]))
        const options = { ...left, ...engine?.(broken.core) }
        const { finding, cases } = await findWeakness(broken, RIDES[ride], search, undefined, options)
        const rules = finding?.violations.map(({ rule }) => rule) ?? []
        expect(rules).toSatisfy(
          (seen: string[]) => expected.some((rule) => seen.includes(rule)),
          finding?.message,
        )
        found.push(`${name}: ${[...new Set(rules)].join(', ')}, found by case ${Math.max(cases, 1)}`)
      },
    )
  })
}
