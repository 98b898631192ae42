import { expect, test } from 'vitest'
import { Coverage } from '../../packages/crash-kit/src/finding/coverage.js'
import type { PlannedFault } from '../../packages/crash-kit/src/plan/planned-fault.js'
import { KitError } from '../../packages/crash-kit/src/kit-error.js'

const crash: PlannedFault = { attempt: 0, fault: 'crash', at: 'charge_created/call#1:after' }
const early: PlannedFault = { attempt: 0, fault: 'crash', at: 'reserve/insert_key#1:before' }
const lost: PlannedFault = { attempt: 1, fault: 'lostCommitAck', at: 'finished/commit#1:before' }

function coverageOf(...cases: readonly { plan: readonly PlannedFault[]; fired: readonly PlannedFault[] }[]) {
  const coverage = new Coverage()
  for (const { plan } of cases) coverage.addCase(plan)
  for (const { plan, fired } of cases) {
    for (const fault of fired) coverage.addFired(plan, fault)
    for (const { at } of fired) coverage.addReached(at)
  }
  return coverage
}

function failureOf(coverage: Coverage): KitError {
  try {
    coverage.assertComplete()
  } catch (error) {
    return error as KitError
  }
  throw new Error('It was complete.')
}

test('without missing faults, coverage is complete', () => {
  const coverage = coverageOf(
    { plan: [crash], fired: [crash] },
    { plan: [crash, lost], fired: [crash, lost] },
  )
  coverage.addReached('ride_created/begin#1:before')
  expect(coverage.missing()).toEqual([])
  coverage.assertComplete()
  expect(`\n${coverage.render()}\n`).toMatchInlineSnapshot(`
    "
    2 cases, 3 of 3 positions reached
    fault          planned  fired
    crash                2      2
    lostCommitAck        1      1
    "
  `)
})

test('a fault that never fired is named, with its case', () => {
  const coverage = coverageOf(
    { plan: [crash], fired: [crash] },
    { plan: [early, lost], fired: [early] },
    { plan: [early], fired: [] },
  )
  expect(coverage.missing()).toEqual([
    {
      fault: lost,
      nth: 2,
      replay: 'crash@reserve/insert_key#1:before; recovery 1: lostCommitAck@finished/commit#1:before',
    },
    { fault: early, nth: 1, replay: 'crash@reserve/insert_key#1:before' },
  ])
  expect(`\n${coverage.render()}\n`).toMatchInlineSnapshot(`
    "
    3 cases, 2 of 3 positions reached
    fault          planned  fired
    crash                3      2  1 never fired
    lostCommitAck        1      0  1 never fired
    "
  `)
  const failure = failureOf(coverage)
  expect(failure).toBeInstanceOf(KitError)
  expect(failure.code).toBe('PAWL_KIT_NOT_FIRED')
  expect(`\n${failure.message}\n`).toMatchInlineSnapshot(`
    "
    2 planned faults never fired: nothing was tested there. Does the pipeline take another path each time it runs? It may depend on its input and state only.
      fault 2 (lostCommitAck) of 'crash@reserve/insert_key#1:before; recovery 1: lostCommitAck@finished/commit#1:before'
      'crash@reserve/insert_key#1:before'
    "
  `)
})

test('firing in one case does not count in another, nor in another attempt', () => {
  const later = { ...crash, attempt: 1 }
  const coverage = coverageOf(
    { plan: [crash], fired: [crash] },
    { plan: [crash, later], fired: [crash] },
    { plan: [crash, lost], fired: [] },
  )
  expect(coverage.missing().map(({ fault }) => fault)).toEqual([later, crash, lost])
})

test('the same plan twice is one case, and firing in either is enough', () => {
  const coverage = coverageOf({ plan: [crash], fired: [] }, { plan: [{ ...crash }], fired: [crash] })
  expect(coverage.missing()).toEqual([])
  expect(coverage.render()).toContain('1 case,')
})

test('a run without faults misses nothing', () => {
  const coverage = coverageOf({ plan: [], fired: [] })
  coverage.addReached('ride_created/begin#1:before')
  coverage.assertComplete()
  expect(`\n${coverage.render()}\n`).toMatchInlineSnapshot(`
    "
    1 case, 1 of 1 positions reached
    "
  `)
})

test('if very many never fired, the rest are counted', () => {
  const coverage = new Coverage()
  for (let occurrence = 1; occurrence <= 250; occurrence++) {
    coverage.addCase([{ ...crash, at: `ride_created/query#${occurrence}:before` }])
  }
  const { message } = failureOf(coverage)
  expect(message).toContain('250 planned faults never fired')
  expect(message).toContain('query#100:before')
  expect(message).not.toContain('query#101:before')
  expect(message).toContain('… and 150 more')
})
