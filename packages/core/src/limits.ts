const SECOND_MS = 1_000
const HOUR_MS = 3_600 * SECOND_MS

/**
 * What a timer of Node, a time-out of PostgreSQL and an `integer` column hold. A longer timer would fire at once; the
 * others would fail at the first request.
 */
export const MAX_INT32 = 2_147_483_647

/** Long enough that a pause for garbage collection or a slow disk is no loss; short enough to wait for. */
export const DEFAULT_LEASE_MS = 30 * SECOND_MS

/** Three renewals fit into a lease, so that one may fail without losing it. */
export const RENEWALS_PER_LEASE = 3

/** Under this, a round trip to a loaded database can outlast the lease. */
export const MIN_LEASE_MS = 100

/** What payment providers advise as a client time-out, and more than nearly all of their answers take. */
export const DEFAULT_CALL_TIMEOUT_MS = 30 * SECOND_MS

/** Time for a call to notice its aborted signal before its promise is left behind. */
export const ABORT_GRACE_MS = 250

/** Upper bounds of the defaults for transactions; the defaults shrink with the lease (see settings.ts). */
export const MAX_DEFAULT_STATEMENT_TIMEOUT_MS = 10 * SECOND_MS
export const MAX_DEFAULT_LOCK_TIMEOUT_MS = 2 * SECOND_MS
export const MAX_DEFAULT_IDLE_TIMEOUT_MS = 10 * SECOND_MS

/** Added to a server-side time-out before the client gives a connection up for dead: a network's hiccup. */
export const CONNECTION_DEADLINE_SLACK_MS = 2 * SECOND_MS

/** How long a request waits for a connection of the pool before the store counts as unavailable. */
export const DEFAULT_ACQUIRE_TIMEOUT_MS = 10 * SECOND_MS

/** Conflicts rarely outlast three tries with jitter; more would hold the lease for nothing. */
export const DEFAULT_TRANSACTION_RETRIES = 5

/** First pause between two tries of one transaction; doubled each time, with full jitter. */
export const TRANSACTION_RETRY_BASE_MS = 10
export const TRANSACTION_RETRY_MAX_MS = 500

/** A request that failed ten times at one point will fail an eleventh time: a person should look. */
export const DEFAULT_MAX_ATTEMPTS = 10

/** Back-off of a key between attempts: doubled each time up to the cap, with full jitter. */
export const BACKOFF_BASE_MS = 500
export const BACKOFF_MAX_MS = 10 * 60 * SECOND_MS

/** Stripe keeps its keys for 24 hours and more; an hour less leaves room for clocks and queues. */
export const DEFAULT_WINDOW_MS = 23 * HOUR_MS

/** As long as clients may expect a replay, and not shorter than the default window. */
export const DEFAULT_RETENTION_MS = 24 * HOUR_MS

/** Under this, clients that retry after a coffee get a second effect: warned about. */
export const SHORT_RETENTION_MS = HOUR_MS

/** After a day nobody waits for the request any more, and the provider's window is over. */
export const DEFAULT_ABANDON_AFTER_MS = 24 * HOUR_MS

/** How long after the call's deadline a provider's answer "absent" starts to count. */
export const DEFAULT_QUIET_MS = 60 * SECOND_MS

/** Longest key and scope, in characters. 255 is what the HTTP draft's implementers agree on. */
export const MAX_KEY_LENGTH = 255
export const MAX_SCOPE_LENGTH = 255

/** Longest name of a pipeline or phase: the length of a PostgreSQL identifier. */
export const MAX_NAME_LENGTH = 63

/** Size caps in bytes of JSON or body: the row is rewritten at every advance, so it has to stay small. */
export const DEFAULT_MAX_INPUT_BYTES = 256 * 1024
export const DEFAULT_MAX_STATE_BYTES = 64 * 1024
export const DEFAULT_MAX_RESPONSE_BYTES = 2 * 1024 * 1024

/** PostgreSQL's parser and JSON.stringify recurse; both are safe at this depth with room to spare. */
export const MAX_JSON_DEPTH = 256

/** Longest recorded error, in characters. */
export const MAX_ERROR_LENGTH = 2_000

/** A reservation that lost this many races answers `in_flight`; each round is two statements. */
export const RESERVE_ROUNDS = 5

/** How often a lost connection is replaced before the store counts as unavailable. */
export const RECONNECT_TRIES = 3

/** How often a step may find that nothing moved before its key is given back: answers that get lost each time. */
export const MAX_REDECISIONS = 10

/** How long a result that is known, and only in memory, is tried to be saved while the store is away. */
export const SAVE_RESULT_MS = 5 * SECOND_MS

/** What a duplicate is told to wait when the lease itself does not say better. */
export const IN_FLIGHT_RETRY_MS = 1 * SECOND_MS

/** Time that close() gives running requests, and then their aborted calls. */
export const DEFAULT_CLOSE_TIMEOUT_MS = 10 * SECOND_MS
export const CLOSE_ABORT_GRACE_MS = 2 * SECOND_MS
