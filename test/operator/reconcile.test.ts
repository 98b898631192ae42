import {
  createOperator,
  type Operator,
  type ProviderRecord,
  reconcile,
  type ReconcileReport,
} from '@pawl/core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { RideTrial } from '../support/ride-trial.js'
import { createEngine, createRideTables } from '../support/rides.js'
import { seedEffect, seedKey } from '../support/seeded-rows.js'
import { TestDatabase } from '../support/test-database.js'

let database: TestDatabase
let operator: Operator
beforeEach(async () => {
  database = await TestDatabase.create()
  operator = createOperator({ pool: database.pool(), schema: database.schema })
})
afterEach(() => database.drop())

const from = new Date('2026-01-01T00:00:00Z')
const to = new Date('2026-01-02T00:00:00Z')
const noon = new Date('2026-01-01T12:00:00Z')
const justBefore = new Date(from.getTime() - 1)

const compare = (records: readonly ProviderRecord[], more = {}) =>
  reconcile(operator, { from, to, records: () => records, ...more })

const names = (items: readonly { readonly reference: string | null }[]) => items.map((each) => each.reference)

/** What is reported, by references, to be readable. */
function told(report: ReconcileReport) {
  return {
    matched: report.matched,
    missingHere: names(report.missingHere),
    missingThere: names(report.missingThere),
    different: report.different.map(({ kind, effects, records }) => [kind, names(effects), names(records)]),
    unmatchable: report.unmatchable.length,
  }
}

const agreed = { matched: 0, missingHere: [], missingThere: [], different: [], unmatchable: 0 }

test('a charge planted at the provider and an effect planted here are found among real rides', async () => {
  await createRideTables(database)
  const [one, two] = [new RideTrial(database), new RideTrial(database)]
  for (const trial of [one, two]) {
    const own = createEngine(trial.options())
    expect(await trial.execute(own)).toMatchObject({ type: 'completed' })
    await own.close()
  }
  const now = (await operator.status()).at
  const stray = await one.provider.charge(5)
  await seedEffect(database, { reference: 'ch_invented', at: now, effectName: 'charge_created' })
  const ledger = [...(await one.provider.ledger()), ...(await two.provider.ledger())]
  const report = await reconcile(operator, {
    from: new Date(now.getTime() - 600_000),
    to: new Date(now.getTime() + 600_000),
    records: async function* () {
      for (const { id, key } of ledger) yield { reference: id, providerKey: key, at: now }
    },
  })
  expect(told(report)).toEqual({
    ...agreed,
    matched: 2,
    missingHere: [stray.id],
    missingThere: ['ch_invented'],
  })
  expect(report.unfinished).toEqual({ count: 0, isAtLeast: false })
})

test('two empty sides agree', async () => {
  expect(told(await compare([]))).toEqual(agreed)
})

describe('matched', () => {
  test('by reference, whatever the provider key', async () => {
    await seedEffect(database, { reference: 'ch_1', providerKey: 'k1', at: noon })
    expect(told(await compare([{ reference: 'ch_1', at: noon }]))).toEqual({ ...agreed, matched: 1 })
    const otherKey = { reference: 'ch_1', providerKey: 'k2', at: noon }
    expect(told(await compare([otherKey]))).toEqual({ ...agreed, matched: 1 })
  })

  test('by provider key, where the effect has no reference', async () => {
    await seedEffect(database, { reference: null, providerKey: 'k1', at: noon })
    const record = { reference: 'ch_1', providerKey: 'k1', at: noon }
    expect(told(await compare([record]))).toEqual({ ...agreed, matched: 1 })
  })

  test('once, where the provider lists a record twice', async () => {
    await seedEffect(database, { reference: 'ch_1', providerKey: 'k1', at: noon })
    const record = { reference: 'ch_1', providerKey: 'k1', at: noon }
    expect(told(await compare([record, record]))).toEqual({ ...agreed, matched: 1 })
  })
})

const amountIsNotFive = (_effect: unknown, { detail }: ProviderRecord) =>
  (detail as { amount: number }).amount === 5 ? null : 'the amount is 6'

describe('different', () => {
  test('are two records under one provider key: a double charge', async () => {
    await seedEffect(database, { reference: 'ch_1', providerKey: 'k1', at: noon })
    const report = await compare([
      { reference: 'ch_1', providerKey: 'k1', at: noon },
      { reference: 'ch_2', providerKey: 'k1', at: noon },
    ])
    expect(told(report)).toEqual({ ...agreed, different: [['double', ['ch_1'], ['ch_1', 'ch_2']]] })
  })

  test('and missing here is a double charge without an effect', async () => {
    const report = await compare([
      { reference: 'ch_1', providerKey: 'k1', at: noon },
      { reference: 'ch_2', providerKey: 'k1', at: noon },
    ])
    expect(told(report)).toEqual({
      ...agreed,
      missingHere: ['ch_1', 'ch_2'],
      different: [['double', [], ['ch_1', 'ch_2']]],
    })
  })

  test('are two effects here of one record there: somebody got what another paid for', async () => {
    await seedEffect(database, { reference: 'ch_1', at: noon, providerKey: 'one' })
    await seedEffect(database, { reference: 'ch_1', at: noon, providerKey: 'two' })
    const report = await compare([{ reference: 'ch_1', providerKey: 'one', at: noon }])
    expect(told(report)).toEqual({ ...agreed, different: [['double', ['ch_1', 'ch_1'], ['ch_1']]] })
  })

  test('is a changed reference under the same provider key', async () => {
    await seedEffect(database, { reference: 'ch_1', providerKey: 'k1', at: noon })
    const report = await compare([{ reference: 'ch_9', providerKey: 'k1', at: noon }])
    expect(told(report)).toEqual({ ...agreed, different: [['reference', ['ch_1'], ['ch_9']]] })
  })

  test('is whatever the differs function says', async () => {
    for (const reference of ['ch_1', 'ch_2']) await seedEffect(database, { reference, at: noon })
    const records = [
      { reference: 'ch_1', at: noon, detail: { amount: 5 } },
      { reference: 'ch_2', at: noon, detail: { amount: 6 } },
    ]
    const report = await compare(records, { differs: amountIsNotFive })
    expect(told(report)).toEqual({ ...agreed, matched: 1, different: [['content', ['ch_2'], ['ch_2']]] })
    expect(report.different[0]?.detail).toBe('the amount is 6')
  })
})

describe('effects without a reference', () => {
  test('cannot be compared where no record has a provider key', async () => {
    await seedEffect(database, { reference: null, at: noon })
    expect(told(await compare([{ reference: 'ch_1', at: noon }]))).toEqual({
      ...agreed,
      missingHere: ['ch_1'],
      unmatchable: 1,
    })
  })

  test('are missing there where records have provider keys, or where there are none', async () => {
    await seedEffect(database, { reference: null, at: noon })
    expect(told(await compare([{ reference: 'ch_1', providerKey: 'k1', at: noon }]))).toMatchObject({
      missingThere: [null],
      unmatchable: 0,
    })
    expect(told(await compare([]))).toMatchObject({ missingThere: [null], unmatchable: 0 })
  })
})

describe('the window', () => {
  test('includes its first moment and not its last, on both sides', async () => {
    await seedEffect(database, { reference: 'here at first', at: from })
    await seedEffect(database, { reference: 'here at last', at: to })
    await seedEffect(database, { reference: 'here before', at: justBefore })
    const report = await compare([
      { reference: 'there at first', at: from },
      { reference: 'there at last', at: to },
      { reference: 'there before', at: justBefore },
    ])
    expect(told(report)).toEqual({
      ...agreed,
      missingHere: ['there at first'],
      missingThere: ['here at first'],
    })
  })

  test('does not miss what was charged in it and settled after it, or the other way round', async () => {
    await seedEffect(database, { reference: 'late', at: new Date(to.getTime() + 3_600_000) })
    await seedEffect(database, { reference: 'early', at: from })
    const records = [
      { reference: 'late', at: new Date(to.getTime() - 1) },
      { reference: 'early', at: justBefore },
    ]
    expect(told(await compare(records))).toEqual({ ...agreed, matched: 1 })
    // Without the slack, both would be reported as missing.
    expect(told(await compare(records.slice(0, 1), { slackMs: 0 }))).toEqual({
      ...agreed,
      missingHere: ['late'],
      missingThere: ['early'],
    })
  })

  test('is widened by the slack when both sides are asked', async () => {
    let asked: object = {}
    const records = (window: object) => {
      asked = window
      return Promise.resolve([])
    }
    await reconcile(operator, { from, to, records, slackMs: 60_000 })
    expect(asked).toEqual({ from: new Date(from.getTime() - 60_000), to: new Date(to.getTime() + 60_000) })
  })

  test('reports a difference that is partly in it, and none that is outside', async () => {
    await seedEffect(database, { reference: 'a', providerKey: 'ka', at: noon })
    await seedEffect(database, { reference: 'b', providerKey: 'kb', at: justBefore })
    const report = await compare([
      { reference: 'x', providerKey: 'ka', at: justBefore },
      { reference: 'y', providerKey: 'kb', at: justBefore },
    ])
    expect(told(report)).toEqual({ ...agreed, different: [['reference', ['a'], ['x']]] })
  })
})

test('compares only effects with the given names', async () => {
  await seedEffect(database, { reference: 'ch_1', effectName: 'charge', at: noon })
  await seedEffect(database, { reference: 'mail_1', effectName: 'mail', at: noon })
  const records = [{ reference: 'ch_1', at: noon }]
  expect(told(await compare(records, { effects: ['charge'] }))).toEqual({ ...agreed, matched: 1 })
  expect(told(await compare(records))).toEqual({ ...agreed, matched: 1, missingThere: ['mail_1'] })
})

test('counts unfinished keys from before its end, since they may explain what is missing', async () => {
  const now = (await operator.status()).at
  await seedKey(database, { createdAgo: '1 h' })
  await seedKey(database, { createdAgo: '1 h', status: 'stuck' })
  await seedKey(database, { createdAgo: '1 h', status: 'finished' })
  await seedKey(database)
  const window = { from: new Date(now.getTime() - 7_200_000), to: new Date(now.getTime() - 60_000) }
  const report = await reconcile(operator, { ...window, records: () => [] })
  expect(report.unfinished).toEqual({ count: 2, isAtLeast: false })
})

describe('wrong options are refused', () => {
  test.each([
    [{ from: to, to: from }, /to is/],
    [{ records: 'x' }, /records is 'x'; it takes a function/],
    [{ slackMs: -1 }, /slackMs/],
    [{ effects: 'charge' }, /effects/],
    [{ differs: 1 }, /differs/],
    [{ window: 1 }, /'window'/],
    [{ records: () => [{ reference: '', at: noon }] }, /reference/],
    [{ records: () => [{ reference: 'a', at: '2026' }] }, /at is '2026'; it takes a valid Date/],
    [{ records: () => [{ reference: 'a', at: noon, providerKey: 1 }] }, /providerKey/],
    [{ records: () => [null] }, /an object/],
  ])('%o', async (wrong, message) => {
    await expect(compare([], wrong)).rejects.toThrow(message)
  })
})
