import type { Variant } from './variant.js'

const TRANSACTION = 'run/phase-transaction.ts'

/** Engines that are wrong about phases that share a transaction. */
export const LEG_VARIANTS = [
  {
    name: 'leg-keeps-earlier-phases',
    broken: 'If a later phase of a leg fails, what the earlier ones wrote is committed nevertheless.',
    endangers:
      'There are rows of phases whose recovery point the key has not reached, and they are written again.',
    replacements: [
      {
        file: TRANSACTION,
        from: `if (transaction.failedWriteOf !== null) advancing = false
    await transaction.rollBack()`,
        to: `if (transaction.failedWriteOf !== null) advancing = false
    if (leg.reached.length > 0 && !advancing) await transaction.commit([]).catch(() => {})
    await transaction.rollBack()`,
      },
    ],
    ride: 'legs',
    search: { by: 'faults', faults: ['throw'], depth: 1 },
    foundBy:
      'return_created throws before its query: the ride is committed by a transaction that moves no recovery point, and the ' +
      'next attempt makes another.',
    expected: ['I4', 'I15'],
  },
  {
    name: 'leg-stores-a-point-not-reached',
    broken: 'If a later phase of a leg fails, the leg is committed as if that phase had been reached.',
    endangers: 'The key goes on past a phase that has not run.',
    replacements: [
      {
        file: TRANSACTION,
        from: `if (transaction.failedWriteOf !== null) advancing = false
    await transaction.rollBack()`,
        to: `if (transaction.failedWriteOf !== null) advancing = false
    if (leg.reached.length > 0 && !advancing && work.by === 'phase') {
      const past = leg.reach(phase, leg.stateJson)
      const onward = { type: 'advance', stateJson: leg.stateJson } as const
      return await commit(run, past, transaction, onward, [advanceBy(run, work, past, onward)])
    }
    await transaction.rollBack()`,
      },
    ],
    ride: 'legs',
    search: { by: 'faults', faults: ['throw'], depth: 1 },
    foundBy: 'return_created throws before its query: there is a charge, and an answer, and no way back.',
    expected: ['I4', 'oracle'],
  },
  {
    name: 'leg-loses-the-effect',
    broken: 'The effect that is recorded is that of the last phase of a leg. The settle is the first.',
    endangers: 'Nobody can compare what was charged with what the provider has.',
    replacements: [{ file: TRANSACTION, from: 'const { effect } = first', to: 'const { effect } = work' }],
    ride: 'legs',
    search: { by: 'clean run' },
    foundBy: 'The charge has no row in effects, in a run without faults.',
    expected: ['I4'],
  },
  {
    name: 'leg-declares-nothing',
    broken:
      'The commit of a leg does not store the declaration of the call that follows, and its holder believes that it does.',
    endangers: 'After a crash, nobody knows that the call may have been made, and it is made again.',
    replacements: [
      {
        file: 'storage/keys/advance-key.ts',
        from: "` intent = ${calling(tables, '$12', '$13')}, ${epochAfter('$11')}`)}, k.intent::text AS declared`",
        to: "` intent = NULL, ${epochAfter('$11')}`)}, ${calling(tables, '$12', '$13')}::text AS declared`",
      },
    ],
    ride: 'declaring_legs',
    search: { by: 'faults', faults: ['crash'], depth: 1 },
    foundBy: 'A crash at charge_created/call#1:after: the next holder charges again.',
    expected: ['I2'],
  },
  {
    name: 'swallowed-write-is-lost',
    broken: 'A transaction commits although a statement that was handed to write has not been executed.',
    endangers: 'The key moves past a phase whose rows are not there, and nobody is told.',
    replacements: [
      {
        file: 'driver/later-writes.ts',
        from: 'if (!sent.has(statement)) return of',
        to: 'if (!sent.has(statement)) return null',
      },
    ],
    ride: 'writes',
    search: { by: 'faults', faults: ['throw'], depth: 1 },
    foundBy:
      'ride_created throws before the statement that it handed over: its query fails in its place, the phase swallows that ' +
      'error, and there is a charge without a ride.',
    expected: ['I4', 'oracle'],
  },
] as const satisfies readonly Variant[]
