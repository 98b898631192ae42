import type { Variant } from './variant.js'

/** Engines that are wrong about where a key is, after a failover that lost commits. */
export const PROTOCOL_VARIANTS = [
  {
    name: 'call-declared-at-any-point',
    broken:
      'A call is declared at whatever point the row is, and what is known of a call of another phase is ignored and cleared.',
    endangers:
      'After a failover that lost an advance, the retry of the earlier phase forgets the call, and makes it again.',
    replacements: [
      {
        file: 'storage/keys/declare-call.ts',
        from: `AND k.recovery_point = $8
  RETURNING k.intent`,
        to: `AND $8::text IS NOT NULL
  RETURNING k.intent`,
      },
      {
        file: 'run/next-step.ts',
        from: 'if (intent !== null && intent.phase !== phase.name && !isToBeCarried(definition, phase, intent)) {',
        to: `if (intent !== null && intent.phase === '' && !isToBeCarried(definition, phase, intent)) {`,
      },
      {
        file: 'run/next-step.ts',
        from: `  const { intent } = row
  if (intent?.kind === 'called')`,
        to: `  const intent = row.intent?.phase === phase.name ? row.intent : null
  if (intent?.kind === 'called')`,
      },
      {
        file: 'storage/keys/advanced.ts',
        from: '`(k.intent IS NULL OR ${INTENT_PHASE} = ${own}::text OR ${INTENT_PHASE} = ${carried}::text)`',
        to: '`(k.intent IS NULL OR true OR ${own}::text = ${carried}::text)`',
      },
      {
        file: 'run/run.ts',
        from: 'return intent === null || intent.phase === phase ? null : intent.phase',
        to: 'return intent === null || intent.phase === phase ? null : null',
      },
      {
        file: 'run/give-back.ts',
        from: `const call = isStillOurs && row.status === 'running' ? callKnownOf(run, row) : null`,
        to: `const call = isStillOurs && row.status === 'never' ? callKnownOf(run, row) : null`,
      },
    ],
    ride: 'at_most_once',
    search: { by: 'faults', faults: ['failover'], depth: 1 },
    foundBy:
      'A failover that loses the last commit after ride_created/commit#1:after: the holder declares its call on the row ' +
      'that is back at started, and charges; the retry creates the ride again, which clears the declaration, and charges again.',
    expected: ['I2'],
  },
] as const satisfies readonly Variant[]
