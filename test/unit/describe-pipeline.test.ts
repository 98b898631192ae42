import { absent, pawl, respond } from '@pawl/core'
import { describe, expect, test } from 'vitest'

const { pipeline } = pawl<never>()
const call = () => ({ id: 'ch' })
const run = () => {}
const answer = () => respond(200)

const ride = () =>
  pipeline({ name: 'create-ride', version: 3 })
    .local('ride_created', run)
    .foreign('charged', { call, effectName: 'charge' })
    .foreign('notified', { call, guarantee: 'at_most_once', when: () => true })

test('a pipeline describes its phases in order', () => {
  const described = ride().finish(answer)
  expect(described.describe()).toEqual({
    name: 'create-ride',
    version: 3,
    definitionHash: described.definitionHash,
    phases: [
      { name: 'ride_created', kind: 'local', conditional: false, guarantee: null, effectName: null },
      { name: 'charged', kind: 'foreign', conditional: false, guarantee: 'keyed', effectName: 'charge' },
      {
        name: 'notified',
        kind: 'foreign',
        conditional: true,
        guarantee: 'at_most_once',
        effectName: 'notified',
      },
      { name: 'finished', kind: 'finish', conditional: false, guarantee: null, effectName: null },
    ],
  })
})

test('a pipeline draws itself for Mermaid', () => {
  expect(ride().finish(answer).diagram()).toMatchInlineSnapshot(`
    "stateDiagram-v2
      [*] --> started: reserve
      started --> ride_created: local
      ride_created --> charged: call charge (keyed), settle
      charged --> notified: call notified (at_most_once), settle, or skipped
      notified --> finished: respond
      finished --> [*]
    "
  `)
})

describe('the definition hash', () => {
  const { definitionHash } = ride().finish(answer)

  test('is the same in every process and release, because rows in the database contain it', () => {
    expect(definitionHash).toBe('3aa2828b33050bf5')
  })

  test.each([
    ['the code of a phase', pipeline({ name: 'create-ride', version: 3 }).local('ride_created', () => ({}))],
    [
      'settings of the pipeline',
      pipeline({ name: 'create-ride', version: 3, leaseMs: 500, maxAttempts: 2, retentionMs: 1 }).local(
        'ride_created',
        run,
      ),
    ],
    [
      'settings of a phase',
      pipeline({ name: 'create-ride', version: 3 }).local('ride_created', run, {
        isolation: 'serializable',
        transactionRetries: 0,
      }),
    ],
    [
      'the fingerprint and the upgrades',
      pipeline({
        name: 'create-ride',
        version: 3,
        fingerprint: () => 1,
        upgradesFrom: [{ version: 1 }],
      }).local('ride_created', run),
    ],
  ])('does not change with %s', (_, builder) => {
    const changed = builder
      .foreign('charged', {
        call: () => ({ id: 'other' }),
        effectName: 'charge',
        guarantee: 'keyed',
        windowMs: 5,
        settle: () => ({ chargeId: 'ch' }),
        reference: () => 'ch',
        onError: () => {},
      })
      .foreign('notified', { call, guarantee: 'at_most_once', when: () => false, callTimeoutMs: 9 })
      .finish(() => respond(201), { leaseMs: 900 })
    expect(changed.definitionHash).toBe(definitionHash)
  })

  const start = (name = 'create-ride', version = 3) => pipeline({ name, version })
  const charge = { call, effectName: 'charge' }
  const notify = { call, guarantee: 'at_most_once', when: () => true } as const
  const created = () => start().local('ride_created', run)

  test.each([
    [
      'the name',
      start('delete-ride').local('ride_created', run).foreign('charged', charge).foreign('notified', notify),
    ],
    [
      'the version',
      start('create-ride', 4)
        .local('ride_created', run)
        .foreign('charged', charge)
        .foreign('notified', notify),
    ],
    ["a phase's name", start().local('created', run).foreign('charged', charge).foreign('notified', notify)],
    ['the order', start().foreign('charged', charge).local('ride_created', run).foreign('notified', notify)],
    ['a phase that is gone', created().foreign('charged', charge)],
    [
      'a phase that is new',
      created().foreign('charged', charge).foreign('notified', notify).local('more', run),
    ],
    [
      'a kind',
      start().foreign('ride_created', { call }).foreign('charged', charge).foreign('notified', notify),
    ],
    ['an effect name', created().foreign('charged', { call }).foreign('notified', notify)],
    [
      'a guarantee',
      created()
        .foreign('charged', { ...charge, guarantee: 'queryable', reconcile: () => absent() })
        .foreign('notified', notify),
    ],
    [
      'a condition that is gone',
      created().foreign('charged', charge).foreign('notified', { call, guarantee: 'at_most_once' }),
    ],
    [
      'a condition that is new',
      start()
        .local('ride_created', run, { when: () => true })
        .foreign('charged', charge)
        .foreign('notified', notify),
    ],
  ])('changes with %s', (_, builder) => {
    expect(builder.finish(answer).definitionHash).not.toBe(definitionHash)
  })
})
