import type { Variant } from './variant.js'

/** Engines that are wrong about the server: that its clock is one clock, and that it waits for locks as it is told. */
export const SERVER_VARIANTS = [
  {
    name: 'absent-by-another-clock',
    broken: 'How long a call has been quiet is computed from a declaration by another clock.',
    endangers: 'A call that is on its way is taken for one that was never made, and made again.',
    replacements: [
      {
        file: 'run/next-step.ts',
        from: `if (intent.server !== row.server) return { do: 'reconcile', phase, absentCountsInMs: null }`,
        to: '',
      },
    ],
    ride: 'queryable',
    search: { by: 'faults', faults: ['databaseClock'], depth: 1 },
    foundBy:
      'The charge is on its way when process and server fail, and the clock of the new server is an hour ahead: the provider ' +
      'says that there is none, and by that clock it has had its time. It is charged again, and then the first one arrives.',
    expected: ['I2'],
  },
  {
    name: 'future-lease-honoured',
    broken: 'A lease is live until the moment in its row, however far away that is.',
    endangers:
      'After a failover to a clock that is behind, the keys of dead holders stay held for as long as it is behind.',
    replacements: [
      {
        file: 'request/decide-unfinished.ts',
        from: 'const isPlausible = leaseLeftMs <= leaseBoundMs || !clockWentBack',
        to: 'const isPlausible = leaseBoundMs > 0',
      },
    ],
    ride: 'keyed',
    search: { by: 'faults', faults: ['databaseClock'], depth: 1 },
    foundBy:
      'Process and server fail once the key is reserved, and the clock of the new server is behind: when the lease would have ' +
      'been over, a retry is told in_flight.',
    expected: ['L1'],
  },
  {
    name: 'completer-honours-future-leases',
    broken: 'The completer looks for leases that are over, but not for those of another clock.',
    endangers: 'The same, if no client comes back.',
    replacements: [
      {
        file: 'storage/keys/due-keys.ts',
        from: "${leaseIsOver('k.', leaseBoundMs, ` + ${REST_AFTER_CRASH}`)}",
        to: `(k.lease_until IS NULL OR k.lease_until + \${REST_AFTER_CRASH} <= clock_timestamp())
        AND \${leaseBoundMs} > 0`,
      },
    ],
    ride: 'keyed',
    search: { by: 'faults', faults: ['databaseClock'], depth: 1 },
    foundBy:
      'Process, server and client fail, and the clock of the new server is behind: no round of the completer finds the key.',
    expected: ['L1'],
  },
  {
    name: 'reservation-without-lock-time-out',
    broken: 'Nothing bounds how long a reservation waits for a lock.',
    endangers: 'While its table is locked, requests wait without end and take all connections.',
    replacements: [
      {
        file: 'driver/stand-alone.ts',
        from: 'return [READ_COMMITTED, notWaiting(lockTimeoutMs), statement]',
        to: 'return [READ_COMMITTED, notWaiting(0), statement]',
      },
    ],
    ride: 'keyed',
    search: { by: 'faults', faults: ['tableLock'], depth: 1 },
    foundBy:
      "The keys' table is locked when the key is to be reserved: the statement waits for it long after its time-out.",
    expected: ['I14'],
  },
] as const satisfies readonly Variant[]
