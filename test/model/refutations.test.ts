import { expect, test } from 'vitest'
import {
  declaredInMemoryOnly,
  forgetfulRefusal,
  noTakeOver,
  reaperByTimeOnly,
  takeOverByFenceAlone,
  takeOverOfChangedRow,
  unfencedAdvance,
  unfencedDeclare,
  unfencedRaise,
  unfencedGiveBack,
  unfencedRenewal,
  unknownCommitAsFailure,
  unknownCommitAsSuccess,
} from './broken-rules.js'
import { explore } from './explore.js'
import {
  ALL_INVARIANTS,
  effectInItsPlace,
  finishedBeforeReaped,
  forwardOnly,
  growingFence,
  type Invariant,
  oneEffect,
  oneHolder,
  oneResponse,
  trueBelief,
} from './invariants.js'
import type { Rules } from './rules.js'
import type { Bound, Phases } from './state.js'
import { printTrace } from './trace.js'

// A model that finds nothing may be blind. Each of these tests has the protocol with one thing wrong, and the shortest way
// in which it breaks a guarantee.

const KEYED: Phases = ['local', 'keyed', 'finish']
const AT_MOST_ONCE: Phases = ['local', 'at_most_once', 'finish']
const WITHOUT_FAULTS: Bound = {
  grants: 3,
  lives: 1,
  crashes: 0,
  failures: 0,
  losses: 0,
  refusals: 0,
  interventions: 0,
}

function refute(rules: Rules, invariant: Invariant, phases: Phases, faults: Partial<Bound> = {}): string {
  const { refutation } = explore({ phases, rules, bound: { ...WITHOUT_FAULTS, ...faults } }, [invariant])
  return refutation === null ? 'not refuted' : printTrace(refutation, phases)
}

test('a take-over that checks the fence alone moves the key back to an earlier point', () => {
  expect(refute(takeOverByFenceAlone, forwardOnly, KEYED)).toMatchInlineSnapshot(`
    "I6 recovery points only move forward, one transaction at a time: refuted in 6 steps
      1  A         insert                                          at started, fence 1 of A1, lease live
      2  A         updates the row to 1                            at started, fence 1 of A1, lease live
      3  clock     the lease runs out                              at started, fence 1 of A1, lease over
      4  B         reads the row: nobody holds it                  at started, fence 1 of A1, lease over
      5  A         commits                                         at 1 (local), fence 1 of A1, lease live
      6  B         take_over                                       at started, fence 2 of B2, lease live
         the recovery point went from 1 to 0"
  `)
})

test('a call that is declared only in memory is repeated after a crash', () => {
  expect(refute(declaredInMemoryOnly, oneEffect, AT_MOST_ONCE, { crashes: 1 })).toMatchInlineSnapshot(`
    "I2 at most one effect at the provider; at most one attempt of a call that may not be repeated: refuted in 9 steps
      1  A         insert                                          at started, fence 1 of A1, lease live
      2  A         updates the row to 1                            at started, fence 1 of A1, lease live
      3  A         commits                                         at 1 (local), fence 1 of A1, lease live
      4  A         calls the provider under key 0                  at 1 (local), fence 1 of A1, lease live
      5  clock     the lease runs out                              at 1 (local), fence 1 of A1, lease over
      6  B         reads the row: nobody holds it                  at 1 (local), fence 1 of A1, lease over
      7  B         take_over                                       at 1 (local), fence 2 of B2, lease live
      8  B         declare                                         at 1 (local), fence 2 of B2, lease live, calling
      9  B         calls the provider under key 0                  at 1 (local), fence 2 of B2, lease live, calling
         the call was made 2 times"
  `)
})

test('a take-over that does not notice that the row was written repeats a call', () => {
  expect(refute(takeOverOfChangedRow, oneEffect, AT_MOST_ONCE)).toMatchInlineSnapshot(`
    "I2 at most one effect at the provider; at most one attempt of a call that may not be repeated: refuted in 11 steps
      1  A         insert                                          at started, fence 1 of A1, lease live
      2  A         updates the row to 1                            at started, fence 1 of A1, lease live
      3  A         commits                                         at 1 (local), fence 1 of A1, lease live
      4  clock     the lease runs out                              at 1 (local), fence 1 of A1, lease over
      5  B         reads the row: nobody holds it                  at 1 (local), fence 1 of A1, lease over
      6  A         declare                                         at 1 (local), fence 1 of A1, lease live, calling
      7  A         calls the provider under key 0                  at 1 (local), fence 1 of A1, lease live, calling
      8  clock     the lease runs out                              at 1 (local), fence 1 of A1, lease over, calling
      9  B         take_over                                       at 1 (local), fence 2 of B2, lease live
     10  B         declare                                         at 1 (local), fence 2 of B2, lease live, calling
     11  B         calls the provider under key 0                  at 1 (local), fence 2 of B2, lease live, calling
         the call was made 2 times"
  `)
})

test('an unfenced give-back ends the lease of the next holder', () => {
  expect(refute(unfencedGiveBack, oneHolder, KEYED, { failures: 1 })).toMatchInlineSnapshot(`
    "I1 at most one holder, and its lease is nobody else's: refuted in 6 steps
      1  A         insert                                          at started, fence 1 of A1, lease live
      2  A         fails in the phase                              at started, fence 1 of A1, lease live
      3  clock     the lease runs out                              at started, fence 1 of A1, lease over
      4  B         reads the row: nobody holds it                  at started, fence 1 of A1, lease over
      5  B         take_over                                       at started, fence 2 of B2, lease live
      6  A         give_back                                       at started, fence 2 of B2, lease none
         the lease of B2 became 'none' by somebody else"
  `)
})

test('an unfenced give-back forgets the call that the next holder declared, which is then repeated', () => {
  expect(refute(unfencedGiveBack, oneEffect, AT_MOST_ONCE, { failures: 1 })).toMatchInlineSnapshot(`
    "I2 at most one effect at the provider; at most one attempt of a call that may not be repeated: refuted in 14 steps
      1  A         insert                                          at started, fence 1 of A1, lease live
      2  A         updates the row to 1                            at started, fence 1 of A1, lease live
      3  A         commits                                         at 1 (local), fence 1 of A1, lease live
      4  A         fails in the phase                              at 1 (local), fence 1 of A1, lease live
      5  clock     the lease runs out                              at 1 (local), fence 1 of A1, lease over
      6  B         reads the row: nobody holds it                  at 1 (local), fence 1 of A1, lease over
      7  B         take_over                                       at 1 (local), fence 2 of B2, lease live
      8  B         declare                                         at 1 (local), fence 2 of B2, lease live, calling
      9  A         give_back                                       at 1 (local), fence 2 of B2, lease none
     10  A         reads the row: nobody holds it                  at 1 (local), fence 2 of B2, lease none
     11  A         take_over                                       at 1 (local), fence 3 of A3, lease live
     12  A         declare                                         at 1 (local), fence 3 of A3, lease live, calling
     13  A         calls the provider under key 0                  at 1 (local), fence 3 of A3, lease live, calling
     14  B         calls the provider under key 0                  at 1 (local), fence 3 of A3, lease live, calling
         the call was made 2 times"
  `)
})

test('a raise without its fence takes the key from whoever has taken it over', () => {
  expect(refute(unfencedRaise, oneHolder, KEYED, { losses: 1 })).toMatchInlineSnapshot(`
    "I1 at most one holder, and its lease is nobody else's: refuted in 8 steps
      1  A         insert                                          at started, fence 1 of A1, lease live
      2  A         updates the row to 1                            at started, fence 1 of A1, lease live
      3  A         gets no answer to COMMIT                        at started, fence 1 of A1, lease live
      4  clock     the lease runs out                              at started, fence 1 of A1, lease over
      5  B         reads the row: nobody holds it                  at started, fence 1 of A1, lease over
      6  network   the commit of A never happens                   at started, fence 1 of A1, lease over
      7  B         take_over                                       at started, fence 2 of B2, lease live
      8  A         raise                                           at started, fence 3 of A2, lease live
         the key was taken from B2, whose lease was live"
  `)
})

test('a reaper that checks only the time deletes a running key', () => {
  expect(refute(reaperByTimeOnly, finishedBeforeReaped, KEYED)).toMatchInlineSnapshot(`
    "I9 the reaper never removes an unfinished key: refuted in 2 steps
      1  A         insert                                          at started, fence 1 of A1, lease live
      2  reaper    deletes the row                                 no row
         a running key at 0 was deleted"
  `)
})

test('an advance without its fence commits the work of a frozen holder', () => {
  expect(refute(unfencedAdvance, growingFence, KEYED)).toMatchInlineSnapshot(`
    "I5 fences grow, and no write carries an old one: refuted in 6 steps
      1  A         insert                                          at started, fence 1 of A1, lease live
      2  clock     the lease runs out                              at started, fence 1 of A1, lease over
      3  B         reads the row: nobody holds it                  at started, fence 1 of A1, lease over
      4  B         take_over                                       at started, fence 2 of B2, lease live
      5  A         updates the row to 1                            at started, fence 2 of B2, lease live
      6  A         commits                                         at 1 (local), fence 2 of B2, lease live
         a write carried fence 1, and 2 had been granted"
  `)
})

test('a declaration without its fence lets a frozen holder make the call as well', () => {
  expect(refute(unfencedDeclare, oneEffect, AT_MOST_ONCE)).toMatchInlineSnapshot(`
    "I2 at most one effect at the provider; at most one attempt of a call that may not be repeated: refuted in 10 steps
      1  A         insert                                          at started, fence 1 of A1, lease live
      2  A         updates the row to 1                            at started, fence 1 of A1, lease live
      3  A         commits                                         at 1 (local), fence 1 of A1, lease live
      4  clock     the lease runs out                              at 1 (local), fence 1 of A1, lease over
      5  B         reads the row: nobody holds it                  at 1 (local), fence 1 of A1, lease over
      6  B         take_over                                       at 1 (local), fence 2 of B2, lease live
      7  A         declare                                         at 1 (local), fence 2 of B2, lease live, calling
      8  A         calls the provider under key 0                  at 1 (local), fence 2 of B2, lease live, calling
      9  B         declare                                         at 1 (local), fence 2 of B2, lease live, calling
     10  B         calls the provider under key 0                  at 1 (local), fence 2 of B2, lease live, calling
         the call was made 2 times"
  `)
})

test("a renewal without fence and holder keeps somebody else's lease alive", () => {
  expect(refute(unfencedRenewal, oneHolder, KEYED)).toMatchInlineSnapshot(`
    "I1 at most one holder, and its lease is nobody else's: refuted in 8 steps
      1  A         insert                                          at started, fence 1 of A1, lease live
      2  A         updates the row to 1                            at started, fence 1 of A1, lease live
      3  A         commits                                         at 1 (local), fence 1 of A1, lease live
      4  clock     the lease runs out                              at 1 (local), fence 1 of A1, lease over
      5  B         reads the row: nobody holds it                  at 1 (local), fence 1 of A1, lease over
      6  B         take_over                                       at 1 (local), fence 2 of B2, lease live
      7  clock     the lease runs out                              at 1 (local), fence 2 of B2, lease over
      8  A         renews its lease                                at 1 (local), fence 2 of B2, lease live
         the lease of B2 became 'live' by somebody else"
  `)
})

test('an unknown COMMIT that is taken for failed lands after its holder has gone on', () => {
  expect(refute(unknownCommitAsFailure, trueBelief, KEYED, { losses: 1 })).toMatchInlineSnapshot(`
    "I7 a holder that goes on is at the stored recovery point: refuted in 4 steps
      1  A         insert                                          at started, fence 1 of A1, lease live
      2  A         updates the row to 1                            at started, fence 1 of A1, lease live
      3  A         gets no answer to COMMIT, and takes it as failed  at started, fence 1 of A1, lease live
      4  network   the commit of A lands                           at 1 (local), fence 1 of A1, lease live
         A goes on from 0, and the row is at 1"
  `)
})

test('after an unknown COMMIT that is taken for done, a call is made although the phases before it never committed', () => {
  expect(refute(unknownCommitAsSuccess, effectInItsPlace, KEYED, { losses: 1 })).toMatchInlineSnapshot(`
    "I4 no call before the phases that come before it, no settled phase without its effect: refuted in 5 steps
      1  A         insert                                          at started, fence 1 of A1, lease live
      2  A         updates the row to 1                            at started, fence 1 of A1, lease live
      3  A         gets no answer to COMMIT, and takes it as done  at started, fence 1 of A1, lease live
      4  A         calls the provider under key 0                  at started, fence 1 of A1, lease live
      5  A         gets the result of its call                     at started, fence 1 of A1, lease live
         there is an effect, and the row is at 0"
  `)
})

test('an unknown COMMIT that is taken for done shows two clients different responses', () => {
  expect(refute(unknownCommitAsSuccess, oneResponse, KEYED, { losses: 1 })).toMatchInlineSnapshot(`
    "I3 a finished key keeps its response, and nobody sees another: refuted in 15 steps
      1  A         insert                                          at started, fence 1 of A1, lease live
      2  A         updates the row to 1                            at started, fence 1 of A1, lease live
      3  A         commits                                         at 1 (local), fence 1 of A1, lease live
      4  A         calls the provider under key 0                  at 1 (local), fence 1 of A1, lease live
      5  A         gets the result of its call                     at 1 (local), fence 1 of A1, lease live
      6  A         updates the row to 2                            at 1 (local), fence 1 of A1, lease live
      7  A         commits                                         at 2 (keyed), fence 1 of A1, lease live
      8  A         updates the row to 3                            at 2 (keyed), fence 1 of A1, lease live
      9  A         gets no answer to COMMIT, and takes it as done  at 2 (keyed), fence 1 of A1, lease live
     10  clock     the lease runs out                              at 2 (keyed), fence 1 of A1, lease over
     11  A         reads the row: nobody holds it                  at 2 (keyed), fence 1 of A1, lease over
     12  network   the commit of A never happens                   at 2 (keyed), fence 1 of A1, lease over
     13  A         take_over                                       at 2 (keyed), fence 2 of A2, lease live
     14  A         updates the row to 3                            at 2 (keyed), fence 2 of A2, lease live
     15  A         commits                                         at finished, fence 2 of A2, lease none
         clients saw response 1, then response 2"
  `)
})

test('a provider that may execute a key which it has refused charges twice', () => {
  expect(refute(forgetfulRefusal, oneEffect, KEYED, { refusals: 1 })).toMatchInlineSnapshot(`
    "I2 at most one effect at the provider; at most one attempt of a call that may not be repeated: refuted in 15 steps
      1  A         insert                                          at started, fence 1 of A1, lease live
      2  A         updates the row to 1                            at started, fence 1 of A1, lease live
      3  A         commits                                         at 1 (local), fence 1 of A1, lease live
      4  A         calls the provider under key 0                  at 1 (local), fence 1 of A1, lease live
      5  clock     the lease runs out                              at 1 (local), fence 1 of A1, lease over
      6  B         reads the row: nobody holds it                  at 1 (local), fence 1 of A1, lease over
      7  B         take_over                                       at 1 (local), fence 2 of B2, lease live
      8  B         calls the provider under key 0                  at 1 (local), fence 2 of B2, lease live
      9  B         has its call refused                            at 1 (local), fence 2 of B2, lease live
     10  A         gets the result of its call                     at 1 (local), fence 2 of B2, lease live
     11  B         give_back                                       at 1 (local), fence 2 of B2, lease none, provider key 1
     12  B         reads the row: nobody holds it                  at 1 (local), fence 2 of B2, lease none, provider key 1
     13  B         take_over                                       at 1 (local), fence 3 of B3, lease live, provider key 1
     14  B         calls the provider under key 1                  at 1 (local), fence 3 of B3, lease live, provider key 1
     15  B         gets the result of its call                     at 1 (local), fence 3 of B3, lease live, provider key 1
         the provider has 2 effects, under different keys"
  `)
})

test('if nobody may take over, an enqueued key is never run', () => {
  const model = { phases: KEYED, rules: noTakeOver, bound: WITHOUT_FAULTS }
  const { refutation, deadEnd } = explore(model, ALL_INVARIANTS)
  expect(refutation).toBeNull()
  expect(deadEnd === null ? 'every way can end' : printTrace(deadEnd, KEYED)).toMatchInlineSnapshot(`
    "L1 once faults stop, every key ends: refuted in 1 steps
      1  A         enqueues the key                                at started, fence 1 of -, lease none
         from here, the key can neither finish nor get stuck"
  `)
})
