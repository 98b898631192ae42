import type { Variant } from './variant.js'

type ScenarioVariant = Pick<Variant, 'name' | 'broken' | 'endangers' | 'replacements'> & {
  /** The test of the suite that fails with it as well. */
  readonly alsoFoundBy: string
}

/** Engines with something wrong that only several keys or scopes show: `scenarios.test.ts` finds them. */
export const SCENARIO_VARIANTS = [
  {
    name: 'completer-without-places',
    broken: 'One scope may have all places of the completer.',
    endangers: 'The requests of a tenant that hang hold up those of all others.',
    replacements: [{ file: 'background/places.ts', from: 'return Math.ceil(total / 2)', to: 'return total' }],
    alsoFoundBy: 'completer/turns.test.ts',
  },
  {
    name: 'completer-without-turns',
    broken: 'The completer ends the requests of one scope before it begins with those of another.',
    endangers: 'A tenant with very many requests delays those of all others.',
    replacements: [
      {
        file: 'background/turn-queue.ts',
        from: `this.#ofScope.delete(scope)
      if (items.length > 0) this.#ofScope.set(scope, items)`,
        to: 'if (items.length === 0) this.#ofScope.delete(scope)',
      },
    ],
    alsoFoundBy: 'completer/turns.test.ts',
  },
  {
    name: 'relay-without-places',
    broken: 'One scope may have all places of the relay.',
    endangers: 'Jobs of a tenant whose deliveries hang hold up those of all others.',
    replacements: [{ file: 'background/places.ts', from: '>= this.#perScope', to: '>= this.#total' }],
    alsoFoundBy: 'relay/turns.test.ts',
  },
  {
    name: 'found-for-anybody',
    broken: 'The row that was read for those who wait answers whoever waits, whichever key they wait for.',
    endangers: "A client gets the response of another tenant's request.",
    replacements: [
      {
        file: 'request/decide-found.ts',
        from: 'if (row.scope !== request.scope || row.key !== request.key || row.status',
        to: 'if (row.status',
      },
    ],
    alsoFoundBy: 'http/shared-waiting.test.ts',
  },
] as const satisfies readonly ScenarioVariant[]
