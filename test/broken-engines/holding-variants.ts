import type { Variant } from './variant.js'

const RESERVE_KEY = 'request/reserve-key.ts'

/** Engines that are wrong about who may run and write a key. */
export const HOLDING_VARIANTS = [
  {
    name: 'no-fence-in-the-update',
    broken:
      'An advance finds its row by scope and key alone, not by fence, holder, recovery point and status.',
    endangers: 'A holder whose key was taken over commits nevertheless.',
    replacements: [
      {
        file: 'storage/keys/advanced.ts',
        from: "`${HELD} AND k.recovery_point = $5 AND ${statusIs('running')}`",
        to: "'k.scope = $1 AND k.key = $2 AND $3::bigint IS NOT NULL AND $4::uuid IS NOT NULL AND $5::text IS NOT NULL'",
      },
    ],
    ride: 'keyed',
    search: { by: 'faults', faults: ['freeze'], depth: 1 },
    foundBy:
      'A holder frozen at finished/finish_key#1:before until another has taken over and finished: it finishes the ' +
      'key once more, under a fence that is not its own, and its job is staged twice. Or a race: a zombie ' +
      'frozen at ride_created/advance_key#1:before writes its point over that of whoever has come further.',
    expected: ['I5'],
  },
  {
    name: 'take-over-by-fence-alone',
    broken:
      'A take-over checks the fence that was read, and not whether the row has moved on or is held again.',
    endangers: 'The key goes back to the point at which it was read.',
    replacements: [
      {
        file: 'storage/keys/unheld.ts',
        from: `AND \${asRead('', 3)} AND \${statusIs('running', '')}
     AND \${leaseIsOver('', '$7')}`,
        // A check of the table would refuse a finished row, which is an error and does no harm.
        to: `AND $3::uuid IS NOT NULL AND $4::uuid IS NOT NULL AND fence = $5::bigint AND $6::bigint IS NOT NULL
     AND \${statusIs('running', '')} AND $7::double precision IS NOT NULL`,
      },
    ],
    ride: 'keyed',
    search: { by: 'races', actors: ['zombie', 'client'] },
    foundBy:
      'A zombie frozen between ride_created/begin#1:after and ride_created/advance_key#1:before; its lease ' +
      'runs out; the client has read the row (reserve/find_key#1:after); the zombie commits; the client ' +
      'takes over from the row it had read, although the lease is live again: the recovery point goes back, ' +
      'and there are two rides. No single fault does it: the fence must not have grown.',
    expected: ['I6', 'I1', 'outcome'],
  },
  {
    name: 'give-back-without-fence',
    broken: 'Giving a key back is not conditional on fence and holder.',
    endangers:
      'The lease of whoever has taken the key over is ended, and a third one gets the key at the same time.',
    replacements: [
      {
        file: 'storage/keys/give-back-key.ts',
        from: `WHERE \${HELD} AND \${statusIs('running')}`,
        to: `WHERE k.scope = $1 AND k.key = $2 AND $3::bigint IS NOT NULL AND $4::uuid IS NOT NULL`,
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
    broken: 'The clock of the machine that asks decides whether a lease is over.',
    endangers:
      'A machine whose clock is fast takes keys from their holders; one whose clock is slow leaves them.',
    replacements: [
      {
        file: 'request/decide-unfinished.ts',
        from: 'const leaseLeftMs = (row.leaseUntilMs ?? row.nowMs) - row.nowMs',
        to: 'const leaseLeftMs = (row.leaseUntilMs ?? Date.now()) - Date.now()',
      },
      {
        file: 'storage/keys/unheld.ts',
        from: `
     AND \${leaseIsOver('', '$7')}`,
        to: ' AND $7::double precision IS NOT NULL',
      },
    ],
    ride: 'keyed',
    search: { by: 'faults', faults: ['clockSkew'], depth: 1 },
    foundBy:
      'A holder stands at charge_created/call#1:before, its lease live; a duplicate whose Date is an hour ' +
      'ahead takes over instead of being told in_flight. If its clock is an hour behind, client and completer ' +
      "alike leave a dead holder's key.",
    expected: ['I1', 'L1'],
  },
  {
    name: 'lease-never-renewed',
    broken: 'Leases are not renewed during a call.',
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
    endangers: 'Two run the key at once, and nothing distinguishes one from the other.',
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
    broken: 'The reaper goes by age: for a key that has no expiry yet, it counts from the creation.',
    endangers: 'A running request loses its key, and a retry starts over.',
    replacements: [
      {
        file: 'storage/keys/expired.ts',
        from: `WHERE k.status = 'finished' AND k.expires_at <= \${NOW} AND \${from('k.expires_at', '$2')}`,
        to: `WHERE coalesce(k.expires_at, k.created_at) <= \${NOW}
       AND \${from('coalesce(k.expires_at, k.created_at)', '$2')}`,
      },
      {
        file: 'storage/keys/expired.ts',
        from: `\${tables.ofOneShard('k')} AND \${statusIs('finished')}`,
        to: '',
      },
      {
        // Those whose bytes are counted are looked at once more.
        file: 'storage/keys/reap-these-keys.ts',
        from: ` AND \${statusIs('finished')} AND \${HAS_EXPIRED}`,
        to: '',
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
      'A key is reserved by checking whether it is there and then inserting it, and no constraint forbids a second.',
    endangers: 'Two requests that come at once both get the key.',
    replacements: [
      {
        file: RESERVE_KEY,
        from: 'let row = looksFirst ? await findKeyToReplay(store, scope, key) : null',
        to: 'let row = await findKeyToReplay(store, scope, key)',
      },
      {
        file: 'storage/keys/insert-key.ts',
        from: ` WHERE NOT EXISTS (SELECT 1 FROM \${tables.keys} AS seen WHERE seen.scope = $2 AND seen.key = $3)`,
        to: ' WHERE true',
      },
      {
        file: 'storage/keys/limit-looks.ts',
        from: 'seen.scope = $2 AND seen.key = $3)\n',
        to: 'seen.scope = $2 AND seen.key = $3 AND false)\n',
      },
      { file: 'storage/keys/insert-key.ts', from: '  ON CONFLICT (scope, key) DO NOTHING\n', to: '' },
      { file: 'storage/schema/migrations/001-initial.ts', from: ',\n  UNIQUE (scope, key)\n', to: '\n' },
    ],
    ride: 'keyed',
    search: { by: 'races', actors: ['client', 'duplicate'] },
    foundBy:
      'Both stand at reserve/find_key#1:after, where neither has found a row. Two rows, two rides, two ' +
      'jobs, but one charge, because the provider key does not depend on the row.',
    expected: ['I1'],
  },
  {
    name: 'completer-finds-nothing',
    broken: 'The completer never finds a key.',
    endangers: 'A request whose client never comes back is never finished.',
    replacements: [
      {
        file: 'background/completer.ts',
        from: 'const isWanted = ({ id }: DueKey): boolean => !resting.has(id)',
        to: "const isWanted = ({ id }: DueKey): boolean => id === '' && !resting.has(id)",
      },
    ],
    ride: 'keyed',
    search: { by: 'faults', faults: ['disconnect'], depth: 1 },
    foundBy: 'A crash after which no client comes back.',
    expected: ['L1'],
  },
  {
    name: 'retry-never-takes-over',
    broken: 'A client that retries a key whose lease is over is always told to wait.',
    endangers: 'Only the completer, if there is one, finishes interrupted requests.',
    replacements: [
      {
        file: 'request/decide-reservation.ts',
        from: `case 'free':`,
        to: `case 'free':
      if (request !== null) return { type: 'in_flight', leaseLeftMs: 1_000 }`,
      },
    ],
    ride: 'keyed',
    search: { by: 'faults', faults: ['crash'], depth: 1 },
    foundBy: 'Any crash once the key is reserved, and a retry when its lease is over.',
    expected: ['L1'],
  },
] as const satisfies readonly Variant[]
