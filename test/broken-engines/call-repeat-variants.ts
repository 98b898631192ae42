import type { Variant } from './variant.js'

/** Engines that are wrong about when a call may be made, and under which key. */
export const CALL_REPEAT_VARIANTS = [
  {
    name: 'call-repeated-on-conflict',
    broken: 'A settle that meets a conflict leads to a new call instead of a new transaction.',
    endangers: 'A call that must not be made twice is made twice.',
    replacements: [
      {
        file: 'run/phase-transaction.ts',
        from: `if (end.type !== 'conflict') return end`,
        to: `if (end.type === 'conflict' && work.effect !== null) {
      run.update({ ...run.row, nowMs: run.nowMs(), intent: null }, run.leasedAt)
      return { type: 'again' } as never
    }
    if (end.type !== 'conflict') return end`,
      },
    ],
    ride: 'at_most_once',
    search: { by: 'faults', faults: ['serializationFailure'], depth: 1 },
    foundBy:
      'A 40001 in the transaction that settles charge_created, or its COMMIT lost before the server: the ' +
      'provider is charged again in the same execution. A keyed ride shows the second request, which the ' +
      'provider does not execute.',
    expected: ['I2'],
  },
  {
    name: 'provider-key-from-the-row-id',
    broken: "The provider is sent the row's id as idempotency key.",
    endangers:
      'The provider takes two effects of one request for one; a row that is lost and created again is charged twice.',
    replacements: [
      {
        file: 'run/provider-key.ts',
        from: "return `pawl_${sha256(lengthPrefixed(parts), 'base64url')}`",
        to: 'return `pawl_${row.id}`',
      },
    ],
    ride: 'two_calls',
    search: { by: 'clean run' },
    foundBy:
      'The two charges of one ride are sent under one key, and the provider executes only the first. With a ' +
      'single call: a crash at charge_created/call#1:after and a failover that has lost the row; the retry ' +
      'has another id, and is charged again.',
    expected: ['I8'],
  },
  {
    name: 'call-not-declared',
    broken: 'A call that must not be made twice is made without being declared first.',
    endangers: 'After a crash nobody knows of the call, and it is made again.',
    replacements: [
      {
        file: 'run/next-step.ts',
        from: `case 'at_most_once': {
      if (intent?.kind !== 'calling') return { do: 'call', phase, declareFirst: true }`,
        to: `case 'at_most_once': {
      if (intent?.kind !== 'calling') return { do: 'call', phase, declareFirst: false }`,
      },
    ],
    ride: 'at_most_once',
    search: { by: 'faults', faults: ['crash'], depth: 1 },
    foundBy:
      'A crash at charge_created/call#1:after, or anywhere from there to the COMMIT of charge_created: the ' +
      'recovery charges again, where it has to hand the key to a person.',
    expected: ['I2'],
  },
  {
    name: 'result-lost-at-give-back',
    broken: 'Giving a key back forgets what is known of its call.',
    endangers: 'A call whose result could not be settled is made again.',
    replacements: [
      {
        file: 'storage/keys/give-back-key.ts',
        from: 'sealIntent(store.tables, hold, giveBack.intent)',
        to: 'null',
      },
    ],
    ride: 'at_most_once',
    search: { by: 'faults', faults: ['throw'], depth: 1 },
    foundBy:
      'An exception in settle (charge_created/query#1:before) once the charge was made: the retry charges ' +
      'again, where it has to settle the result that was kept.',
    expected: ['I2'],
  },
  {
    name: 'stuck-without-a-call',
    broken: 'A call that must not be made twice counts as made as soon as its key was taken over.',
    endangers: 'Requests wait for a person although nothing of them was ever sent.',
    replacements: [
      {
        file: 'run/next-step.ts',
        from: `  switch (phase.guarantee) {`,
        to: `  if (phase.guarantee === 'at_most_once' && (row as { fence?: number }).fence !== 1)
    return { do: 'mark_stuck', phase, reason: 'unknown_outcome' }
  switch (phase.guarantee) {`,
      },
    ],
    ride: 'at_most_once',
    search: { by: 'faults', faults: ['crash'], depth: 1 },
    foundBy: 'A crash before the call: the key is stuck, and nothing was sent.',
    expected: ['oracle'],
  },
] as const satisfies readonly Variant[]
