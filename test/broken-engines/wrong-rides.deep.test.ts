import * as core from '@pawl/core'
import { describe, expect, test } from 'vitest'
import { RideBench } from './ride-bench.js'
import { WRONG_RIDES } from './wrong-rides.js'

/** Strict mode names these at the first try. The kit has to find them even if it is off. */
const REFUSED_BY_STRICT_MODE: Readonly<Record<string, string>> = {
  'charge-before-insert': 'PAWL_FOREIGN_IN_TRANSACTION',
  'charge-in-transaction': 'PAWL_FOREIGN_IN_TRANSACTION',
  'second-call': 'PAWL_SECOND_FOREIGN_REQUEST',
}

describe.each(WRONG_RIDES)('$name', ({ name, rideOf }) => {
  test('looks right as long as nothing goes wrong', async () => {
    const bench = await RideBench.open(core, rideOf)
    const outcome = await bench.execute({ strict: false })
    expect(outcome).toMatchObject({ type: 'completed', response: { status: 201 } })
    expect(await bench.execute({ strict: false })).toEqual({ ...outcome, type: 'replayed' })
    const [ride] = await bench.rides()
    expect(ride).toEqual({ amount: 1_200, charge_id: (await bench.provider.ledger())[0]?.id })
    const { body } = (outcome as Extract<typeof outcome, { type: 'completed' }>).response
    expect(JSON.parse(body.toString())).toMatchObject({
      charge: ride?.charge_id,
      ride: expect.any(String) as string,
    })
  })

  test('is refused by strict mode, if that can notice the mistake', async () => {
    const bench = await RideBench.open(core, rideOf)
    const code = REFUSED_BY_STRICT_MODE[name]
    expect(await bench.execute()).toMatchObject(
      code === undefined ? { type: 'completed' } : { type: 'retry_later', error: { code } },
    )
  })
})
