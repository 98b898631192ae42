import { describe, expect, test } from 'vitest'
import { firstUnlessDeep } from '../support/amounts.js'
import { loadUnbroken, loadVariant } from './load-variant.js'
import { SCENARIO_VARIANTS } from './scenario-variants.js'
import { SCENARIOS } from './scenarios.js'

describe('what a case of the kit cannot show, because it has one key:', () => {
  test.each(firstUnlessDeep(2, SCENARIO_VARIANTS))('$name: $broken', async ({ name }) => {
    const scenario = SCENARIOS[name]
    expect(await scenario(await loadVariant(name))).not.toBeNull()
    expect(await scenario(await loadUnbroken())).toBeNull()
  })
})
