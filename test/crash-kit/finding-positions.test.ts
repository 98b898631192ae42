import { readdir, readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { describePosition } from '../../packages/crash-kit/src/finding/describe-position.js'
import { parsePosition } from '../../packages/crash-kit/src/plan/named-position.js'
import { STEP_WORDS } from '../../packages/crash-kit/src/finding/step-words.js'
import { RIDE_SHAPE } from './ride-shape.js'

const CORE = new URL('../../packages/core/src/', import.meta.url)

const said = (text: string, attempt = 0) => describePosition(parsePosition(text), RIDE_SHAPE, attempt)

/** One line for each position, with its words. */
const listed = (texts: readonly string[], attempt = 0) =>
  `\n${texts.map((text) => `${text.padEnd(40)} ${said(text, attempt)}`).join('\n')}\n`

test('every position of a request is described in words', () => {
  expect(
    listed([
      'reserve/insert_key#1:before',
      'reserve/insert_key#1:after',
      'ride_created/begin#1:before',
      'ride_created/begin#1:after',
      'ride_created/query#1:before',
      'ride_created/query#1:after',
      'ride_created/query#2:before',
      'ride_created/query#2:after',
      'ride_created/insert_staged_job#1:before',
      'ride_created/insert_staged_job#3:after',
      'ride_created/index_scans_only#1:before',
      'ride_created/advance_key#1:before',
      'ride_created/advance_key#1:after',
      'ride_created/commit#1:before',
      'ride_created/commit#1:after',
      'charge_created/renew_leases#1:before',
      'charge_created/call#1:before',
      'renewal/renew_leases#1:before',
      'renewal/renew_leases#2:after',
      'charge_created/call#1:after',
      'charge_created/begin#1:before',
      'charge_created/commit#1:before',
      'charge_created/commit#1:after',
      'driver_told/declare_call#1:before',
      'driver_told/declare_call#1:after',
      'driver_told/call#1:before',
      'driver_told/skip_phase#1:before',
      'driver_told/skip_phase#1:after',
      'driver_told/commit#1:after',
      'finished/finish_key#1:before',
      'finished/finish_key#1:after',
      'finished/commit#1:before',
      'finished/commit#1:after',
    ]),
  ).toMatchInlineSnapshot(`
    "
    reserve/insert_key#1:before              before the key was reserved
    reserve/insert_key#1:after               after the key was reserved, before ride_created began
    ride_created/begin#1:before              in ride_created, before BEGIN
    ride_created/begin#1:after               in ride_created, after BEGIN
    ride_created/query#1:before              in ride_created, before its 1st query
    ride_created/query#1:after               in ride_created, after its 1st query
    ride_created/query#2:before              in ride_created, before its 2nd query
    ride_created/query#2:after               in ride_created, after its 2nd query
    ride_created/insert_staged_job#1:before  in ride_created, before its 1st job was staged
    ride_created/insert_staged_job#3:after   in ride_created, after its 3rd job was staged
    ride_created/index_scans_only#1:before   in ride_created, before sequential scans were turned off
    ride_created/advance_key#1:before        in ride_created, before its recovery point was written
    ride_created/advance_key#1:after         in ride_created, after its recovery point was written
    ride_created/commit#1:before             in ride_created, before COMMIT
    ride_created/commit#1:after              after ride_created committed, before charge_created was called
    charge_created/renew_leases#1:before     in charge_created, before the lease was renewed
    charge_created/call#1:before             before charge_created was called
    renewal/renew_leases#1:before            before the lease was renewed
    renewal/renew_leases#2:after             after the lease was renewed the 2nd time
    charge_created/call#1:after              after charge_created was called, before it was settled
    charge_created/begin#1:before            in charge_created, before BEGIN
    charge_created/commit#1:before           in charge_created, before COMMIT
    charge_created/commit#1:after            after charge_created committed, before the call of driver_told was declared
    driver_told/declare_call#1:before        before the call of driver_told was declared
    driver_told/declare_call#1:after         after the call of driver_told was declared, before it was made
    driver_told/call#1:before                before driver_told was called
    driver_told/skip_phase#1:before          before driver_told was skipped
    driver_told/skip_phase#1:after           after driver_told was skipped, before finished began
    driver_told/commit#1:after               after driver_told committed, before finished began
    finished/finish_key#1:before             in finished, before the response was written
    finished/finish_key#1:after              in finished, after the response was written
    finished/commit#1:before                 in finished, before COMMIT
    finished/commit#1:after                  after the response was stored
    "
  `)
})

test('positions of what goes wrong and is tried again are described in words', () => {
  expect(
    listed([
      'reserve/insert_key#2:before',
      'ride_created/rollback#1:before',
      'ride_created/rollback#1:after',
      'ride_created/begin#2:before',
      'ride_created/commit#2:before',
      'ride_created/commit#2:after',
      'charge_created/call#2:before',
      'charge_created/call#12:after',
      'charge_created/reconcile#1:before',
      'charge_created/reconcile#1:after',
      'raise/raise_fence#1:before',
      'raise/raise_fence#2:after',
      'raise/find_key_by_id#1:before',
      'give_back/give_back_key#1:before',
      'charge_created/give_back_key#1:before',
      'give_back/mark_stuck#1:after',
      'give_back/find_key_by_id#1:before',
      'give_back/forget_key#1:before',
    ]),
  ).toMatchInlineSnapshot(`
    "
    reserve/insert_key#2:before              before the key was asked for the 2nd time
    ride_created/rollback#1:before           in ride_created, before ROLLBACK
    ride_created/rollback#1:after            in ride_created, after ROLLBACK
    ride_created/begin#2:before              in ride_created, before BEGIN the 2nd time
    ride_created/commit#2:before             in ride_created, before COMMIT the 2nd time
    ride_created/commit#2:after              after ride_created committed the 2nd time, before charge_created was called
    charge_created/call#2:before             before charge_created was called the 2nd time
    charge_created/call#12:after             after charge_created was called the 12th time, before it was settled
    charge_created/reconcile#1:before        before the provider was asked about charge_created
    charge_created/reconcile#1:after         after the provider was asked about charge_created
    raise/raise_fence#1:before               before the fence was raised
    raise/raise_fence#2:after                after the fence was raised the 2nd time
    raise/find_key_by_id#1:before            while the fence was raised, before the key was looked up by its id
    give_back/give_back_key#1:before         before the key was given back
    charge_created/give_back_key#1:before    in charge_created, before the key was given back
    give_back/mark_stuck#1:after             after the key was marked as stuck
    give_back/find_key_by_id#1:before        at the end of the run, before the key was looked up by its id
    give_back/forget_key#1:before            before the key was forgotten
    "
  `)
})

test('positions of a recovery, and of the services beside it, are described in words', () => {
  expect(
    listed(
      [
        'reserve/insert_key#1:before',
        'reserve/insert_key#1:after',
        'reserve/insert_key#2:after',
        'reserve/find_key#1:after',
        'reserve/find_key_by_id#1:before',
        'reserve/take_over_key#1:before',
        'reserve/take_over_key#1:after',
        'reserve/mark_unheld_stuck#1:before',
        'completer/find_unattended_keys#1:after',
        'completer/forget_atomic_keys#1:after',
        'relay/claim_jobs#1:before',
        'relay/claim_jobs#1:after',
        'relay/delete_jobs#1:before',
        'relay/return_jobs#2:after',
        'reaper/reap_keys#1:before',
        'reaper/find_expired_keys#1:after',
        'reaper/reap_these_keys#1:after',
        'reaper/put_off_keys#1:before',
        'reaper/reap_effects#1:after',
        'inspect/find_key#1:before',
        'engine.db/query#1:before',
        'operator/revoke_lease#1:after',
      ],
      1,
    ),
  ).toMatchInlineSnapshot(`
    "
    reserve/insert_key#1:before              before the key was asked for again
    reserve/insert_key#1:after               after the key was asked for again
    reserve/insert_key#2:after               after the key was asked for the 2nd time
    reserve/find_key#1:after                 after the key was looked up
    reserve/find_key_by_id#1:before          before the key was looked up by its id
    reserve/take_over_key#1:before           before the key was taken over
    reserve/take_over_key#1:after            after the key was taken over
    reserve/mark_unheld_stuck#1:before       before the key, which nobody held, was marked as stuck
    completer/find_unattended_keys#1:after   after the completer looked for unattended keys
    completer/forget_atomic_keys#1:after     after the completer deleted unattended keys of atomic handlers
    relay/claim_jobs#1:before                before the relay claimed its jobs
    relay/claim_jobs#1:after                 after the relay claimed its jobs, before it delivered them
    relay/delete_jobs#1:before               before the relay deleted what it had delivered
    relay/return_jobs#2:after                after the relay gave back what it had not delivered the 2nd time
    reaper/reap_keys#1:before                before the reaper deleted expired keys
    reaper/find_expired_keys#1:after         after the reaper looked for expired keys
    reaper/reap_these_keys#1:after           after the reaper deleted the expired keys that it had found
    reaper/put_off_keys#1:before             before the reaper put off keys that it could not delete
    reaper/reap_effects#1:after              after the reaper deleted old effects
    inspect/find_key#1:before                in inspect, before the key was looked up
    engine.db/query#1:before                 in engine.db, before its 1st query
    operator/revoke_lease#1:after            after an operator revoked the lease
    "
  `)
})

test('a step without words keeps its name', () => {
  expect(said('ride_created/vacuum_moon#1:before')).toBe('in ride_created, before vacuum_moon')
  expect(said('ride_created/constructor#2:after')).toBe('in ride_created, after constructor the 2nd time')
})

test('phases may have the same names as steps and connections of the engine', () => {
  const shape = { ...RIDE_SHAPE, points: ['started', 'transaction', 'relay', 'phase', 'finished'] }
  const words = (text: string) => describePosition(parsePosition(text), shape)
  expect(words('transaction/begin#1:before')).toBe('in transaction, before BEGIN')
  expect(words('transaction/commit#1:after')).toBe('after transaction committed, before relay began')
  expect(words('relay/begin#1:before')).toBe('in relay, before BEGIN')
  expect(words('phase/query#1:after')).toBe('in phase, after its 1st query')
})

async function stepsOfCore(): Promise<string[]> {
  const files = (await readdir(CORE, { recursive: true })).filter((file) => file.endsWith('.ts'))
  const sources = await Promise.all(files.map((file) => readFile(new URL(file, CORE), 'utf8')))
  const found = sources.flatMap((source) => [
    ...source.matchAll(/defineStatement\(\s*'([^']+)'/g),
    // Statements that are not defined by defineStatement: BEGIN, COMMIT, migrations.
    ...source.matchAll(/name: '([^']+)',\s*text\b/g),
    ...source.matchAll(/\brun\(\s*'([^']+)'/g),
    ...source.matchAll(/step: '([^']+)', (?:when|config): /g),
  ])
  // A name that is made up at run time would be missed.
  const made = sources.flatMap((source) => [
    ...source.matchAll(/defineStatement\((?!\s*')(?!\s*name: string)/g),
  ])
  expect(made).toEqual([])
  return [...new Set(found.map(([, step = '']) => step))]
}

test('every step of core has words of its own, and there are none for steps that are gone', async () => {
  const steps = await stepsOfCore()
  expect(steps).toEqual(
    expect.arrayContaining(['insert_key', 'advance_key', 'commit', 'rollback', 'query', 'claim_jobs']),
  )
  expect(steps.filter((step) => !STEP_WORDS.has(step))).toEqual([])
  // These are passed as parameters, so they are not literals there.
  const known = [...steps, 'call', 'reconcile']
  expect([...STEP_WORDS.keys()].filter((step) => !known.includes(step))).toEqual([])
  const words = [...STEP_WORDS.values()].map(({ what }) => what)
  expect(new Set(words).size).toBe(words.length)
})

test('positions of one run never have the same words', () => {
  const connections = ['reserve', 'renewal', 'raise', 'give_back', 'completer', 'relay', 'reaper', 'inspect']
  for (const attempt of [0, 1]) {
    const words = [...RIDE_SHAPE.points.slice(1), ...connections].flatMap((phase) =>
      [...STEP_WORDS.keys()].flatMap((step) =>
        [1, 2, 3].flatMap((occurrence) =>
          ['before', 'after'].map((when) => said(`${phase}/${step}#${occurrence}:${when}`, attempt)),
        ),
      ),
    )
    const seen = new Set<string>()
    const twice = words.filter((each) => seen.size === seen.add(each).size)
    // A key is reserved in only one place, so its words do not have to name the place.
    expect(twice.filter((each) => !each.includes('the key was asked for'))).toEqual([])
  }
})
