import type { Variant } from './variant.js'

const RESERVE_KEY = 'request/reserve-key.ts'

/** Engines that are wrong about who may run and write a key. */
export const HOLDING_VARIANTS = [
  {
    name: 'no-fence-in-the-update',
    broken: 'An advance finds its row by the id alone, not by fence, holder, recovery point and status.',
    endangers: 'A holder that was taken over from commits all the same.',
    replacements: [
      {
        file: 'storage/keys/advanced.ts',
        from: `AND k.fence = $2::bigint AND k.holder = $3::uuid
     AND k.recovery_point = $4 AND \${statusIs('running')}`,
        to: `AND $2::bigint IS NOT NULL AND $3::uuid IS NOT NULL AND $4::text IS NOT NULL`,
      },
    ],
    ride: 'keyed',
    search: { by: 'faults', faults: ['freeze'], depth: 1 },
    foundBy:
      'Frozen at finished/finish_key#1:before until another has taken over and finished: it finishes the ' +
      'key once more, under a fence that is not its own, and its job is staged twice. Or a race: a zombie ' +
      'frozen at ride_created/advance_key#1:before writes its point over that of whoever has come further.',
    expected: ['I5'],
  },
  {
    name: 'take-over-by-fence-alone',
    broken:
      'A take-over asks for the fence that was read, and not whether the row has moved or is held again.',
    endangers: 'The key goes back to the point at which it was read.',
    replacements: [
      {
        file: 'storage/keys/unheld.ts',
        from: `AND fence = $2::bigint AND xmin = \${writtenBy}::xid AND \${statusIs('running', '')}
     AND \${leaseIsOver('', leaseBoundMs)}`,
        // A finished row would be refused by a check of the table: an error, and no harm.
        to: `AND fence = $2::bigint AND \${writtenBy}::xid IS NOT NULL AND \${statusIs('running', '')}
     AND \${leaseBoundMs}::double precision IS NOT NULL`,
      },
    ],
    ride: 'keyed',
    search: { by: 'races', actors: ['zombie', 'client'] },
    foundBy:
      'A zombie frozen between ride_created/begin#1:after and ride_created/advance_key#1:before; its lease ' +
      'runs out; the client has read the row (reserve/find_key#1:after); the zombie commits; the client ' +
      'takes over what it has read. The point goes back, out of a live lease, and there are two rides. No ' +
      'single fault does it: the fence must not have grown.',
    expected: ['I6', 'I1', 'told'],
  },
  {
    name: 'give-back-without-fence',
    broken: 'Giving a key back is not conditional on fence and holder.',
    endangers: 'The lease of whoever has taken it over is ended, and a third one gets the key beside them.',
    replacements: [
      {
        file: 'storage/keys/give-back-key.ts',
        from: `FROM \${boundedBy('$11')}
   WHERE \${HELD} AND \${statusIs('running')}`,
        to: `FROM \${boundedBy('$11')}
   WHERE k.id = $1::uuid AND $2::bigint IS NOT NULL AND $3::uuid IS NOT NULL`,
      },
    ],
    ride: 'keyed',
    search: { by: 'races', actors: ['zombie', 'client'] },
    foundBy:
      'The provider answers 500, and the client freezes at give_back/give_back_key#1:before until another has ' +
      "the key: its give-back is written under the other's fence. While the other still runs, a third takes " +
      'over; with at_most_once it charges a second time.',
    expected: ['I5'],
  },
  {
    name: 'app-clock-for-leases',
    broken: 'Whether a lease is over is decided by the clock of the machine that asks.',
    endangers:
      'A machine whose clock is fast takes keys from their holders; one whose clock is slow leaves them.',
    replacements: [
      {
        file: 'request/decide-reservation.ts',
        from: 'const leaseLeftMs = (row.leaseUntilMs ?? row.nowMs) - row.nowMs',
        to: 'const leaseLeftMs = (row.leaseUntilMs ?? Date.now()) - Date.now()',
      },
      {
        file: 'storage/keys/unheld.ts',
        from: `
     AND \${leaseIsOver('', leaseBoundMs)}`,
        to: ' AND ${leaseBoundMs}::double precision IS NOT NULL',
      },
    ],
    ride: 'keyed',
    search: { by: 'faults', faults: ['clockSkew'], depth: 1 },
    foundBy:
      'A holder stands at charge_created/call#1:before, its lease live; a duplicate whose Date is an hour ' +
      "ahead takes over instead of being told in_flight. With an hour behind, a dead holder's key is left " +
      'by client and completer alike.',
    expected: ['I1', 'L1'],
  },
  {
    name: 'lease-never-renewed',
    broken: 'A call that outlasts its lease loses it, though its process is well.',
    endangers: 'A duplicate takes the key from a holder that is alive and waits for its provider.',
    replacements: [
      {
        file: 'run/lease-keeper.ts',
        from: `this.#entries.add(lease)
    if (lease.dueAt < this.#wakesAt) this.#schedule()`,
        to: '',
      },
    ],
    ride: 'keyed',
    search: { by: 'faults', faults: ['slowProvider'], depth: 1 },
    foundBy:
      'The provider takes longer than the lease, in real time. A duplicate takes over from a holder that is ' +
      'well, instead of being told in_flight; with at_most_once, the key is stuck.',
    expected: ['I1'],
  },
  {
    name: 'completer-skips-the-fence',
    broken:
      'The completer runs a key that it found under the grant of the last holder, without one of its own.',
    endangers: 'Two run the key at once, and neither can be told from the other.',
    replacements: [
      {
        file: RESERVE_KEY,
        from: 'const taken = await takeOverKey(store, row, by)',
        to: 'const taken = asking.request === null ? row : await takeOverKey(store, row, by)',
      },
    ],
    ride: 'keyed',
    search: { by: 'races', actors: ['client', 'completer'] },
    foundBy:
      'A client that died or froze after ride_created/commit#1:after; its lease runs out; the completer ' +
      'advances the key under the fence of the client. With at_most_once and the client frozen at ' +
      'charge_created/declare_call#1:before, both call.',
    expected: ['I5'],
  },
  {
    name: 'reaper-deletes-running-keys',
    broken: 'The reaper goes by age: a key that has no expiry yet counts from its creation.',
    endangers: 'A request that runs loses its key, and a retry starts over.',
    replacements: [
      {
        file: 'storage/keys/expired.ts',
        from: `SELECT id, expires_at FROM \${keys}
     WHERE status = 'finished' AND expires_at <= (SELECT clock_timestamp()) AND \${from('expires_at', '$2')}`,
        to: `SELECT id, coalesce(expires_at, created_at) AS expires_at FROM \${keys}
     WHERE coalesce(expires_at, created_at) <= (SELECT clock_timestamp())
       AND \${from('coalesce(expires_at, created_at)', '$2')}`,
      },
      {
        file: 'storage/keys/expired.ts',
        from: `WHERE k.id \${oneOf('expired')} AND k.status = 'finished'`,
        to: `WHERE k.id \${oneOf('expired')}`,
      },
    ],
    ride: 'keyed',
    search: { by: 'faults', faults: ['reaper'], depth: 1 },
    foundBy:
      'The reaper comes while the key runs, at whatever position. The row is gone, its holder is fenced ' +
      'off, and a retry makes a second ride.',
    expected: ['I9'],
  },
  {
    name: 'check-then-insert',
    broken:
      'A key is reserved by looking whether it is there and then inserting it, and no constraint forbids a second.',
    endangers: 'Two requests that come at once both get the key.',
    replacements: [
      {
        file: RESERVE_KEY,
        from: 'let row = !isValid || replayLikelihood.isHigh ? await findKeyToReplay(store, scope, key) : null',
        to: 'let row = await findKeyToReplay(store, scope, key)',
      },
      {
        file: 'storage/keys/insert-key.ts',
        from: ` WHERE NOT EXISTS (SELECT FROM \${keys} AS seen WHERE seen.scope = $1 AND seen.key = $2)
  ON CONFLICT (scope, key) DO NOTHING`,
        to: '',
      },
      { file: 'storage/schema/migrations/001-initial.ts', from: '  UNIQUE (scope, key),\n', to: '' },
    ],
    ride: 'keyed',
    search: { by: 'races', actors: ['client', 'duplicate'] },
    foundBy:
      'Both stand at reserve/find_key#1:after, where neither has found a row. Two rows, two rides, two ' +
      'jobs; one charge, since the provider key does not follow from the row.',
    expected: ['I1'],
  },
  {
    name: 'completer-finds-nothing',
    broken: 'The completer never finds a key.',
    endangers: 'A request whose client never comes back is never finished.',
    replacements: [
      {
        file: 'background/completer.ts',
        from: 'return this.#sweep.next(store, this.#batchSize, isWanted)',
        to: 'return this.#sweep.next(store, this.#batchSize, (keyId) => isWanted(keyId) && false)',
      },
    ],
    ride: 'keyed',
    search: { by: 'faults', faults: ['disconnect'], depth: 1 },
    foundBy: 'A crash after which no client comes back.',
    expected: ['L1'],
  },
  {
    name: 'retry-never-takes-over',
    broken: 'A client that retries a key whose lease is over is told to wait, each time.',
    endangers: 'Only the completer, where there is one, finishes interrupted requests.',
    replacements: [
      {
        file: 'request/decide-reservation.ts',
        from: `if (leaseLeftMs > 0 && isPlausible) return { type: 'in_flight', leaseLeftMs }`,
        to: `if ((leaseLeftMs > 0 && isPlausible) || request !== null) return { type: 'in_flight', leaseLeftMs: 1_000 }`,
      },
    ],
    ride: 'keyed',
    search: { by: 'faults', faults: ['crash'], depth: 1 },
    foundBy: 'Any crash once the key is reserved, and a retry when its lease is over.',
    expected: ['L1'],
  },
] as const satisfies readonly Variant[]
