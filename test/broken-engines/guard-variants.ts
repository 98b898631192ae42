import { HostileCache } from '../support/hostile-cache.js'
import { MemoryCache } from '../support/memory-cache.js'
import type { Variant } from './variant.js'

const INSERT_KEY = 'storage/keys/insert-key.ts'
const INSERT_LIMITED_KEY = 'storage/keys/insert-limited-key.ts'
const LIMIT_LOOKS = 'storage/keys/limit-looks.ts'

/** No test gets as far as this by itself. */
const LIMITS = { newKeys: { max: 100, perMs: 24 * 3_600_000 } } as const

/** Engines in which something is wrong with a guard rail. */
export const GUARD_VARIANTS = [
  {
    name: 'expired-keys-run-again',
    broken: 'Nobody looks whether an effect of a key that was deleted is on record.',
    endangers:
      'A client that retries after the retention is charged again: its provider has forgotten the first time.',
    replacements: [
      {
        file: INSERT_KEY,
        from: "insertUnless(' AND had.standing = 0')",
        to: "insertUnless(' AND had.standing >= 0')",
      },
      {
        file: LIMIT_LOOKS,
        from: '(had.standing = 0 OR $15::boolean)',
        to: '(had.standing >= 0 OR $15::boolean)',
      },
    ],
    ride: 'keyed',
    search: { by: 'faults', faults: ['expiry'], depth: 1 },
    foundBy:
      'The key is deleted after finished/commit#1:after, and the provider has forgotten it; the late client creates the ' +
      'ride and charges again, although the first charge is in the ledger.',
    expected: ['I2'],
  },
  {
    name: 'known-keys-take-tokens',
    broken: 'A limit on new keys counts every request that comes, whether its key is new or not.',
    endangers: 'Whoever retries, as told to, is soon refused, and so are the replays of finished requests.',
    replacements: [
      {
        file: LIMIT_LOOKS,
        from: ' AND (had.standing = 0 OR $15::boolean)',
        to: ' OR had.standing >= 0 OR $15::boolean',
      },
      {
        file: INSERT_LIMITED_KEY,
        from: 'if (ofScope?.newKeys != null && (passed',
        to: 'if (ofScope?.newKeys === undefined && (passed',
      },
    ],
    ride: 'keyed',
    engine: () => ({ limits: LIMITS }),
    search: { by: 'clean run' },
    foundBy: 'Another request under the same key, which must change nothing, takes a token of its scope.',
    expected: ['I12'],
  },
  {
    name: 'limit-refuses-duplicates',
    broken: 'A scope that has as many unfinished keys as it may is refused everything, also those very keys.',
    endangers: 'Nobody can go on with what was begun, so that the scope stays at its limit.',
    replacements: [
      {
        file: LIMIT_LOOKS,
        from: ' AND (had.standing = 0 OR $15::boolean)',
        to: ' OR had.standing >= 0 OR $15::boolean',
      },
      {
        file: 'request/reserve-key.ts',
        from: 'if (row === null && inserted !== null) return inserted',
        to: 'if (inserted !== null) return inserted',
      },
    ],
    ride: 'keyed',
    engine: () => ({ limits: { unfinished: 1 } }),
    search: { by: 'faults', faults: ['crash'], depth: 1 },
    foundBy: 'A client that retries after a crash gets limited, by the key that it asks for.',
    expected: ['outcome'],
  },
  {
    name: 'cache-grants',
    broken:
      'A key of which the cache knows nothing is taken for a new one, and reserved over whatever is there.',
    endangers:
      'A cache that was restarted gives every request to a second process while the first one runs it.',
    replacements: [
      {
        file: INSERT_KEY,
        from: "insertUnless('')",
        to: `(tables: Tables) =>
    insertInto(
      tables.keys,
      \`SELECT \${newKeyAfter('had')} FROM (\${effectsBefore(tables, '$2', '$3')}) AS had\`,
    ).replace('DO NOTHING', 'DO UPDATE SET holder = excluded.holder, lease_until = excluded.lease_until')`,
      },
      {
        file: 'request/reserve-key.ts',
        from: `async function insert(
  { runsAgain }: RequestContext,`,
        to: `async function insert(
  { runsAgain: isToRunAgain, cache }: RequestContext,`,
      },
      {
        file: 'request/reserve-key.ts',
        from: 'if (limits === null) {\n    const row',
        to: 'const runsAgain = isToRunAgain || cache !== null\n  if (limits === null) {\n    const row',
      },
    ],
    ride: 'keyed',
    engine: () => ({ cache: new HostileCache() }),
    search: { by: 'clean run' },
    foundBy:
      'The cache has forgotten the finished key, or has it for another request: the late client, or the one with another request, ' +
      'becomes the holder under a fence that was granted before.',
    expected: ['I5', 'I12'],
  },
  {
    name: 'cache-outlives-its-epoch',
    broken:
      'A copy is used whenever it was written, also after PostgreSQL has said that copies from before are of no use.',
    endangers:
      'After a failover, clients are told that a request has finished which the new server has to run again.',
    replacements: [
      {
        file: 'request/cached-key.ts',
        from: 'if (signed.compare(epoch.token, 0, TOKEN_BYTES, 0, TOKEN_BYTES) !== 0) return null',
        to: '',
      },
    ],
    ride: 'keyed',
    engine: () => ({ cache: new MemoryCache() }),
    search: { by: 'faults', faults: ['failover'], depth: 1 },
    foundBy:
      'A failover that loses the last commit after finished/commit#1:after: the client that comes back is replayed an ' +
      'answer from the cache, which is stored nowhere.',
    expected: ['I7', 'outcome'],
  },
  {
    name: 'cache-answers-any-request',
    broken: 'A finished copy answers whoever asks for the key, without a look at the request.',
    endangers: "Another request, or somebody else who has learnt the key, gets this one's response.",
    replacements: [
      {
        file: 'request/answer-from-cache.ts',
        from: 'const decision = decideReservation(row, askingFor(request, NOBODY), among, settings)',
        to: `const decision = row.response !== null
    ? { type: 'replay' as const, response: row.response, expiresMs: row.expiresMs ?? 0 }
    : decideReservation(row, askingFor(request, NOBODY), among, settings)`,
      },
    ],
    ride: 'keyed',
    engine: () => ({ cache: new MemoryCache() }),
    search: { by: 'clean run' },
    foundBy: 'Another amount under the same key gets the cached response, replayed, instead of a mismatch.',
    expected: ['I12'],
  },
  {
    name: 'sealed-for-any-row',
    broken: 'A sealed value is tied to its scope, and neither to its row nor to its column.',
    endangers: 'Whoever can write to the database gets a response that was meant for another request.',
    replacements: [
      {
        file: 'storage/sealed-values.ts',
        from: 'return { scope, row: key === undefined ? id : `${id} ${key}`, column }',
        to: "return { scope, row: '', column: '' }",
      },
    ],
    ride: 'keyed',
    engine: ({ aesGcm }) => ({ protect: aesGcm({ keys: { k: Buffer.alloc(32, 1) } }) }),
    search: { by: 'clean run' },
    foundBy: "The kit opens every sealed value in another row, and in another column: both are another's.",
    expected: ['I17'],
  },
  {
    name: 'ciphertext-without-its-place',
    broken: 'AES-GCM authenticates a value, and not where it is stored.',
    endangers: 'The same: a value that was moved opens.',
    replacements: [
      {
        file: 'aes-gcm.ts',
        from: 'JSON.stringify([keyId, scope, row, column])',
        to: 'JSON.stringify([keyId])',
      },
    ],
    ride: 'keyed',
    engine: ({ aesGcm }) => ({ protect: aesGcm({ keys: { k: Buffer.alloc(32, 1) }, perScope: true }) }),
    search: { by: 'clean run' },
    foundBy: 'The same, although each scope has a key of its own.',
    expected: ['I17'],
  },
  {
    name: 'result-in-the-clear',
    broken: 'What a call has returned is stored as it is until it is settled.',
    endangers: 'The answer of the provider is in every backup, whatever else is sealed.',
    replacements: [
      {
        file: 'storage/sealed-values.ts',
        from: "if (intent?.kind !== 'called' || tables.protection === null)",
        to: "if (intent?.kind !== 'never')",
      },
    ],
    ride: 'keyed',
    engine: ({ aesGcm }) => ({ protect: aesGcm({ keys: { k: Buffer.alloc(32, 1) } }) }),
    search: { by: 'faults', faults: ['throw'], depth: 1 },
    foundBy: 'An exception in charge_created after its call: the result is kept for the retry, in the clear.',
    expected: ['I17'],
  },
  {
    name: 'wiped-with-the-first-phase',
    broken: 'The input is wiped as soon as a phase has committed, and not when the request has finished.',
    endangers:
      'Whoever resumes the request after a crash does so without its input: the amount of the charge is gone.',
    replacements: [
      {
        file: 'storage/keys/advance-key.ts',
        from: 'attempts = 0, retries = 0, run_after = NULL,${intent}, last_error = NULL,',
        to: "input = 'null', attempts = 0, retries = 0, run_after = NULL,${intent}, last_error = NULL,",
      },
    ],
    ride: 'keyed',
    engine: () => ({ defaults: { wipe: 'input' } }),
    search: { by: 'faults', faults: ['crash'], depth: 1 },
    foundBy:
      'A crash after ride_created/commit#1:after: the retry has no amount to charge, fails at each attempt, and is stuck.',
    expected: ['oracle', 'L1'],
  },
  {
    name: 'wiped-with-its-headers',
    broken: 'With the input, the headers of the response are wiped.',
    endangers: 'A replay is not what the first client got: its type and its location are missing.',
    replacements: [
      {
        file: 'storage/keys/finish-key.ts',
        from: 'response_headers = $9::json,',
        to: "response_headers = ${wiped === '' ? '$9::json' : `CASE WHEN $9::json IS NULL THEN $9::json ELSE '{}'::json END`},",
      },
    ],
    ride: 'keyed',
    engine: () => ({ defaults: { wipe: 'input' } }),
    search: { by: 'clean run' },
    foundBy: 'The late client gets the body without its content-type.',
    expected: ['I3'],
  },
  {
    name: 'erasure-takes-effects-of-running-keys',
    broken: 'An erasure takes an effect for one whose key is gone, whatever became of the key.',
    endangers:
      'The request finishes, its key expires, and its retry is charged again: nobody knows of the effect any more.',
    replacements: [
      {
        file: 'erase/erase-effects-of.ts',
        from: 'keptBy === null || (erasure.dryRun && !kept.keyIds.has(keptBy))',
        to: '!erasure.dryRun || keptBy === null || !kept.keyIds.has(keptBy)',
      },
    ],
    ride: 'keyed',
    search: { by: 'faults', faults: ['erasure'], depth: 1 },
    foundBy:
      'An erasure after charge_created/commit#1:after: the effect of the charge is renamed while its key is running.',
    expected: ['I9'],
  },
] as const satisfies readonly Variant[]
