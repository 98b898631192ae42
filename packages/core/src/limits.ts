const SECOND_MS = 1_000
const HOUR_MS = 3_600 * SECOND_MS

/** The largest `integer` of PostgreSQL. A larger number would fail at the first request. */
export const MAX_INT32 = 2_147_483_647

/**
 * Longest duration that may go to a timer of Node or a time-out of PostgreSQL. Both end at 2^31 - 1 ms, 24 days; a longer
 * timer fires at once. A day leaves room for whatever is added to a time-out, or multiplied with it, along the way.
 */
export const MAX_TIMER_MS = 24 * HOUR_MS

/** A hundred years. PostgreSQL's timestamps end, and a phase would fail after its charge. */
export const MAX_DURATION_MS = 100 * 366 * 24 * HOUR_MS

/** Long enough that a garbage collection pause or a slow disk does not lose the lease; short enough to wait for. */
export const DEFAULT_LEASE_MS = 30 * SECOND_MS

/** Three renewals fit into a lease, so that one may fail without losing it. */
export const RENEWALS_PER_LEASE = 3

/**
 * When a row was written in the future, the database's clock must have gone back since its lease was granted. Such a
 * lease counts as over if it is longer than any lease of its pipeline by more than this.
 */
export const LEASE_SLACK_MS = 10 * 60 * SECOND_MS

/** A row that was written more than this far in the future was written by a clock that has gone back since. */
export const CLOCK_WENT_BACK_MS = 10 * 60 * SECOND_MS

/**
 * How long the end of a call waits for a renewal of its lease that is under way: a statement that never waits for a lock.
 * A renewal that lands later could conflict with the next transaction, which is then retried; one that hangs must not
 * keep that transaction waiting.
 */
export const RENEWAL_WAIT_MS = 1 * SECOND_MS

/** The least time that a renewal gets, however short the lease: opening a new connection would take as long. */
export const MIN_RENEWAL_DEADLINE_MS = 1 * SECOND_MS

/** Under this, a round trip to a loaded database can outlast the lease. */
export const MIN_LEASE_MS = 100

/** What payment providers recommend as a client time-out, and longer than nearly all of their answers take. */
export const DEFAULT_CALL_TIMEOUT_MS = 30 * SECOND_MS

/** Time for a call to notice its aborted signal before we stop waiting for its promise. */
export const ABORT_GRACE_MS = 250

/** An application's query is prepared once it has been used this often, so one that is built for a single use never is. */
export const PREPARE_AFTER_USES = 5

/** At most this many of an application's queries are kept prepared on an engine's connections. */
export const PREPARED_QUERIES = 256

/** Upper bounds of the defaults for transactions; the defaults shrink with the lease (see settings.ts). */
export const MAX_DEFAULT_STATEMENT_TIMEOUT_MS = 10 * SECOND_MS
export const MAX_DEFAULT_LOCK_TIMEOUT_MS = 2 * SECOND_MS
export const MAX_DEFAULT_IDLE_TIMEOUT_MS = 10 * SECOND_MS

/** Added to a server-side time-out before the client gives a connection up for dead: allows for a network hiccup. */
export const CONNECTION_DEADLINE_SLACK_MS = 2 * SECOND_MS

/** How long the server gets to accept a request to cancel a statement before its connection is cut anyway. */
export const CANCEL_REQUEST_MS = 1 * SECOND_MS

/** How long a request waits for a connection of the pool before the store counts as unavailable. */
export const DEFAULT_ACQUIRE_TIMEOUT_MS = 10 * SECOND_MS

/**
 * After this many failures in a row, requests no longer wait for the database. One or two may be chance (a stale connection, a
 * failover of a second); a handful with no answer in between is not.
 */
export const DEFAULT_BREAKER_FAILURES = 5

/**
 * How often one request is then let through to look: so the first request after the database's return waits for half a
 * second at most, and a server that is starting is asked twice in a second.
 */
export const DEFAULT_BREAKER_PROBE_MS = SECOND_MS / 2

/**
 * How long a request waits for a replica, including for a connection to it: many times what the answer takes, and little
 * beside what the primary takes for a new request. After that the primary is asked.
 */
export const DEFAULT_REPLAY_TIMEOUT_MS = 250

/** After this many requests in a row that a replica or a cache was of no use to, it is left alone. One or two may be chance. */
export const SOURCE_MISSES = 3

/** It is left alone for so many times what a request waits for it, so that requests spend a tenth of the time waiting in vain. */
export const SOURCE_RESTS = 10

/** How often it is announced that a replica or a cache is left alone for the same reason. */
export const SOURCE_WARNING_MS = 60 * SECOND_MS

/** For this long at the most: so a replica that does not answer costs one request in two seconds its patience, and all others nothing. */
export const REPLICA_REST_MS = 2 * SECOND_MS

/**
 * How long a replica may go on replaying what was deleted on the primary. Replicas are usually behind by milliseconds; one
 * that is behind by a second is still of use.
 */
export const DEFAULT_REPLAY_MAX_LAG_MS = 2 * SECOND_MS

/** Under this, what is known of the primary is too old before a replica has got there. */
export const MIN_REPLAY_MAX_LAG_MS = 100

/**
 * How often the primary is asked for its position while that is needed: so many times within the lag that is allowed. A
 * replica has to have reached a position that is older than half of it, and so has the other half to get there.
 */
export const POSITIONS_PER_LAG = 2

/**
 * How long a request waits for a cache: ten times what a look takes on a network of one site, and little beside what PostgreSQL
 * takes for a new request. After that PostgreSQL is asked.
 */
export const DEFAULT_CACHE_TIMEOUT_MS = 5

/** Waiting longer than this for a cache would cost more than the cache could ever save. */
export const MAX_CACHE_TIMEOUT_MS = SECOND_MS

/** For how long a cache that does not answer is left alone at the most: it costs a few requests in two seconds their patience. */
export const CACHE_REST_MS = 2 * SECOND_MS

/**
 * How long an engine goes by what it last heard of the epoch of cached keys. For this long after a key was forgotten or erased, its
 * response may still be replayed from a cache: so whoever forgets keys waits for it, and it has to be short.
 */
export const CACHE_EPOCH_MAX_AGE_MS = SECOND_MS

/** An engine that is at work asks for the epoch this often, in good time before what it knows is too old. */
export const CACHE_EPOCH_ASK_MS = CACHE_EPOCH_MAX_AGE_MS / 2

/** Added when waiting until no engine can still use an old epoch: clocks of different machines tick a little differently. */
export const CACHE_EPOCH_SLACK_MS = 100

/** A duplicate is answered `in_flight` from a cache for this long after PostgreSQL said so, and never beyond the lease. */
export const CACHE_MARK_MS = SECOND_MS

/**
 * What is cached is used for an hour at the most: most retries come within minutes, and whatever is forgotten or erased leaves the
 * cache after that at the latest, even if nobody can reach it.
 */
export const CACHE_MAX_TTL_MS = HOUR_MS

/** A response leaves the cache this long before its key may be deleted: far more than the clocks of a site differ. */
export const CACHE_EXPIRY_MARGIN_MS = 5 * SECOND_MS

/** A larger response is not cached: reading it from there would take as long as from PostgreSQL, and push many others out. */
export const CACHE_MAX_VALUE_BYTES = 64 * 1024

/** After this many writes in a row that a cache refused, somebody is told. A few may be a failover of it. */
export const CACHE_FAILED_WRITES = 10

/** Looks and writes that may be under way at a cache. Beyond that it is too slow to be of use, and they are left out. */
export const CACHE_MAX_LOOKS = 1_000
export const CACHE_MAX_WRITES = 256

/** A conflict rarely outlasts a few retries with jitter; more than five would hold the lease for nothing. */
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

/** With less than this, clients that retry after a coffee break cause a second effect, so we warn about it. */
export const SHORT_RETENTION_MS = HOUR_MS

/** After a day nobody waits for the request any more, and the provider's window is over. */
export const DEFAULT_MAX_AGE_MS = 24 * HOUR_MS

/**
 * For this many calls, an engine remembers on its own clock when their quiet time ends. Beyond that, the database's clock
 * has to do.
 */
export const MAX_QUIET_CALLS = 10_000

/**
 * A key that has been retried for this long is announced at every further retry, and shown by `status`. This is as long
 * as the longest back-off, and long before the key is given up.
 */
export const RETRIED_FOR_LONG_MS = 10 * 60 * SECOND_MS

/** How long after the call's deadline a provider's answer "absent" starts to count. */
export const DEFAULT_QUIET_MS = 60 * SECOND_MS

/** Longest key and scope, in characters. 255 is what the HTTP draft's implementers agree on. */
export const MAX_KEY_LENGTH = 255
export const MAX_SCOPE_LENGTH = 255

/** A UUID has 36 characters, and so has no key to be longer. The keys that the adapter makes are longer than that. */
export const MAX_MIN_KEY_LENGTH = 36

/** A client whose keys look like personal data sends many of them. One warning an hour is enough to find it. */
export const KEY_WARNING_INTERVAL_MS = 60 * 60 * SECOND_MS

/** Longest name of a pipeline or phase: the length of a PostgreSQL identifier. */
export const MAX_NAME_LENGTH = 63

/** Longest name of a staged job, in characters. */
export const MAX_JOB_NAME_LENGTH = 255

/** Size caps, in bytes of the JSON or the body: the row is rewritten at every advance, so it has to stay small. */
export const DEFAULT_MAX_INPUT_BYTES = 256 * 1024
export const DEFAULT_MAX_STATE_BYTES = 64 * 1024
export const DEFAULT_MAX_RESPONSE_BYTES = 2 * 1024 * 1024

/** Size cap of a response's headers, in bytes: proxies accept 4 to 8 KiB of headers, and HTTP clients 16 KiB. */
export const DEFAULT_MAX_RESPONSE_HEADER_BYTES = 8 * 1024

/**
 * What we keep of a schema's complaints about an input, for the message, the log and the answer: the first issues, each
 * cut to this many characters. That is enough to correct a form; a client that sends nonsense gets no more out of us than
 * it put in.
 */
export const MAX_INPUT_ISSUES = 20
export const MAX_ISSUE_LENGTH = 300
export const MAX_ISSUE_PATH_LENGTH = 200

/** A call's result is in the row only after its settle has failed, so it may be larger than what is always there. */
export const DEFAULT_MAX_RESULT_BYTES = 1024 * 1024

/** A result over its cap is kept anyway, up to the size that a statement can carry to the server well within a lease. */
export const MAX_KEPT_RESULT_BYTES = 64 * 1024 * 1024

/** PostgreSQL's parser and JSON.stringify recurse; both are safe at this depth with room to spare. */
export const MAX_JSON_DEPTH = 256

/** Longest recorded error, in characters. */
export const MAX_ERROR_LENGTH = 2_000

/** Longest stack of a logged error, in characters: some fifty frames. */
export const MAX_STACK_LENGTH = 8_000

/** We redact this many times the length we keep, because redaction shortens the text. */
export const REDACTION_READ_AHEAD = 4

/** This many characters at the end of the searched text are not kept: more than any half of a card number or password. */
export const REDACTION_EDGE = 256

/** Nonces that are made at a time: one call for random bytes costs as much as sealing a value. */
export const NONCES_AT_A_TIME = 128

/** Keys of scopes that are remembered for each key: deriving one takes some 10 µs, and each is a few hundred bytes. */
export const MAX_SCOPE_KEYS = 10_000

/** Longest `bindTo`, in characters: a chain of client certificates fits. */
export const MAX_BINDING_LENGTH = 32_768

/** A text is redacted again until nothing is left to redact: twice is usual, and no text of ours needs more than this. */
export const MAX_REDACTIONS = 8

/** Shortest secret for hashes, in characters: 16 random bytes as hexadecimal digits. */
export const MIN_HASH_SECRET_LENGTH = 32

/** A reservation that lost this many races answers `in_flight`; each round is two statements. */
export const RESERVE_ROUNDS = 5

/** How often a lost connection is replaced before the store counts as unavailable. */
export const RECONNECT_TRIES = 3

/** How often a step may find that nothing moved before its key is given back: the answers got lost each time. */
export const MAX_REDECISIONS = 10

/** How long we keep trying to save a result that is known but only in memory, while the store is away. */
export const SAVE_RESULT_MS = 5 * SECOND_MS

/** How long a duplicate is told to wait when the lease does not suggest a better time. */
export const IN_FLIGHT_RETRY_MS = 1 * SECOND_MS

/** When to come back where a scope has too many unfinished keys: nobody knows when one of them ends. */
export const UNFINISHED_RETRY_MS = 1 * SECOND_MS

/** The largest `storedBytes`: an HTTP header field has no larger integer (RFC 9651). */
export const MAX_STORED_BYTES = 999_999_999_999_999

/** When to come back where a scope has stored too much: keys expire, and the reaper deletes them, within hours rather than seconds. */
export const STORED_RETRY_MS = 60 * SECOND_MS

/** Time that close() gives running requests, and then their aborted calls. */
export const DEFAULT_CLOSE_TIMEOUT_MS = 10 * SECOND_MS
export const CLOSE_ABORT_GRACE_MS = 2 * SECOND_MS

/** Time that stop() gives a background service to finish what it has begun. */
export const DEFAULT_STOP_TIMEOUT_MS = 10 * SECOND_MS

/** Pause of a background service after a failed round: doubled each time, with jitter, up to the cap. */
export const ROUND_RETRY_BASE_MS = 500
export const ROUND_RETRY_MAX_MS = 30 * SECOND_MS

/** One small query a second per process: an unattended request waits for its lease to end, not for us. */
export const DEFAULT_COMPLETER_POLL_MS = 1 * SECOND_MS

/** Keys found by one query. More would go stale before their turn comes. */
export const DEFAULT_COMPLETER_BATCH_SIZE = 100

/** Less than half of pg's default pool of ten: recovery must not starve requests. */
export const DEFAULT_COMPLETER_CONCURRENCY = 4

/** Keys that one completer remembers to leave alone for a while. Beyond that, the oldest is merely asked for again. */
export const MAX_RESTING_KEYS = 10_000

/** One small query a second per process; a phase that stages in the same process wakes the relay at once. */
export const DEFAULT_RELAY_POLL_MS = 1 * SECOND_MS

/** What queues accept in one request: SQS takes 10, most others 100 or more. */
export const DEFAULT_RELAY_BATCH_SIZE = 100

/** Jobs that a claim looks at, due or not: a few milliseconds, however many of one tenant wait, and several batches of others. */
export const JOBS_READ_PER_LOOK = 500

/** Deliveries that one relay has under way, each with jobs of one tenant: what an HTTP client's pool holds. */
export const DEFAULT_RELAY_CONCURRENCY = 10

/** One, as when there was only one in all: while it is under way, the next jobs of its tenant gather for the next. */
export const DEFAULT_RELAY_CONCURRENCY_PER_SCOPE = 1

/**
 * How long jobs that a relay has claimed wait for one of its places, while another relay may have a free one: less than that one
 * waits between two looks. A place delivers its tenth of a batch in that time if a delivery takes less than 50 ms.
 */
export const CLAIMED_AHEAD_MS = 500

/** Long for a queue; a claim lasts twice as long, and a dead relay's jobs wait for it. */
export const DEFAULT_DELIVER_TIMEOUT_MS = 30 * SECOND_MS

/** With the back-off's cap of ten minutes, and its jitter, a queue may be away for more than an hour. */
export const DEFAULT_JOB_MAX_ATTEMPTS = 25

/** After this many failures a job is delivered alone, so that it cannot take others down with it. */
export const DELIVER_ALONE_AFTER = 3

/** How long a job rests whose payload cannot be opened here: a process with the key takes it then, and nobody is kept busy. */
export const SEALED_JOB_REST_MS = 5 * SECOND_MS

/** Jobs that `deliverEach` delivers at the same time: what an HTTP client's pool holds. */
export const DELIVER_EACH_CONCURRENCY = 10

/** There is no hurry about expired keys. */
export const DEFAULT_REAPER_POLL_MS = 60 * SECOND_MS

/** A batch that is deleted in some ten milliseconds, and holds its locks no longer than that. */
export const DEFAULT_REAPER_BATCH_SIZE = 500

/** Pause between two batches: leaves the disk and autovacuum to others most of the time. */
export const DEFAULT_REAPER_PAUSE_MS = 50

/** A year and its audit: how far back a provider or a bank may go. */
export const DEFAULT_EFFECT_RETENTION_MS = 400 * 24 * HOUR_MS

/**
 * How long the reaper waits for a row of the application that refers to an expired key. It holds locks meanwhile, so it
 * is the first to give way, long before PostgreSQL's deadlock_timeout of 1 s would choose between the two.
 */
export const REAPER_LOCK_TIMEOUT_MS = 100

/** How much later a key that cannot be deleted comes up again. */
export const PUT_OFF_LEAST_MS = HOUR_MS
export const PUT_OFF_MOST_MS = 7 * 24 * HOUR_MS

/** Where an operator's count stops: enough to tell a backlog from a disaster, and read in well under a second. */
export const COUNT_LIMIT = 100_000

/** How many finished keys are read to tell whether a pipeline's name was ever used: the last hours or days. */
export const FINISHED_KEYS_SEEN = 10_000

/** Definitions that are read to draw and explain keys: many years of deploys, and read in a few milliseconds. */
export const RECORDED_PIPELINES = 1_000

/** Groups of unfinished keys that are shown: more recovery points than anybody has in use at a time. */
export const FLOW_GROUPS = 2_000

/** Over how long it is measured how fast keys move: long enough to be calm, short enough to show what changes now. */
export const FLOW_WINDOW_MS = 5 * 60 * SECOND_MS

/** Finished keys that are read for it: a median of so many does not move, and their trails are read in some milliseconds. */
export const FLOW_SAMPLE = 2_000

/** For so many different times that finished keys are kept, rates are measured: each costs a statement. */
export const FLOW_RETENTIONS = 5

/** Scopes whose duplicates are shown: what fits on a screen, and the most whose minutes of a day are read in a moment. */
export const DEFAULT_TOP_SCOPES = 20
export const MAX_TOP_SCOPES = 100

/** How old the numbers may be that processes export as gauges: as old as what a scrape of a metrics server shows. */
export const DEFAULT_READING_MS = 15 * SECOND_MS
export const MIN_READING_MS = SECOND_MS

/** What a search returns of each kind at most: whoever sees more has to say more. */
export const FIND_LIMIT = 20

/** How far back a search looks for a provider's reference without an index: a month, as far as most complaints go. */
export const FIND_BACK_MS = 30 * 24 * HOUR_MS

/** What fits on a few screens. */
export const DEFAULT_LIST_LIMIT = 50

/** Each key comes with its input, state and response: more at once could exhaust memory. */
export const MAX_LIST_LIMIT = 1_000

/** Effects, jobs and interventions that are shown with one key: far more than a pipeline has phases. */
export const MAX_SHOWN_WITH_KEY = 1_000

/** Effects read by one query: a round trip for each five hundred, and no connection held in between. */
export const EFFECTS_BATCH_SIZE = 500

/** Dead jobs that one statement delivers again, so that no lock lasts long. */
export const REQUEUE_BATCH_SIZE = 500

/** Longest actor and reason of an intervention, in characters: a sentence or two, not a report. */
export const MAX_ACTOR_LENGTH = 255
export const MAX_REASON_LENGTH = 2_000

/** An intervention that found the row changed this often is refused: whoever writes it is at work. */
export const STEER_ROUNDS = 5

/** Of the latest interventions on a key, so many are looked at for the one that was first: few people work on one key. */
export const INTERVENTIONS_SINCE = 50

/** Among so many of the latest interventions, whoever finds a key gone is told who forgot it: those of the last days. */
export const FORGETTINGS_SEEN = 1_000

/** How long an intervention waits for a row that a phase is about to commit. */
export const STEER_LOCK_TIMEOUT_MS = 2 * SECOND_MS

/** A report over a large table takes its time; a person waits for it. */
export const OPERATOR_STATEMENT_MS = 60 * SECOND_MS

/** If work has been due for this long, nobody is doing it: a service would have taken it within seconds. */
export const OVERDUE_MS = 5 * 60 * SECOND_MS

/** Clocks further apart than this confuse whoever compares log lines. */
export const CLOCK_DRIFT_MS = 5 * SECOND_MS

/** A server-side time-out under this ends statements that are slow only because the server is busy. */
export const SHORT_SERVER_TIMEOUT_MS = 5 * SECOND_MS

/** Fewer dead rows than this do not count as bloat, whatever their share. */
export const BLOAT_DEAD_ROWS = 10_000

/** An effect is settled within a day of the time the provider recorded for it, or its key is stuck because of its age. */
export const DEFAULT_RECONCILE_SLACK_MS = 24 * HOUR_MS

/** How many due keys one statement returns to the completer: a page of ids, sent in a few milliseconds. */
export const DUE_KEYS_PER_LOOK = 1_000

/** How many rows that statement reads, due or not: some milliseconds, however many keys of one tenant rest or hang. */
export const KEYS_READ_PER_LOOK = 5_000

/** How many pages of a pass over the scopes one look reads, so that no look takes longer than a tenth of a second or so. */
export const SCOPE_PAGES_PER_LOOK = 10

/** For this many scopes with very many rows, a pass remembers where to go on. Beyond that, it begins with their oldest again. */
export const MAX_LEFT_OFF_SCOPES = 1_000

/**
 * Staged jobs travel with the advance. This many small statements take no longer than the one that a deadline is meant
 * for.
 */
export const STATEMENTS_PER_DEADLINE = 100

/** Building an index on a large table takes its time; a migration is not a request. */
export const MIGRATION_DEADLINE_MS = 10 * 60 * SECOND_MS

/** Requests queue behind a migration that waits for the tables. This is shorter than the time-out for their own locks. */
export const MIGRATION_LOCK_MS = SECOND_MS

/** Pause between two tries to lock the tables, so that whatever has queued up can be done. */
export const MIGRATION_PAUSE_MS = 2 * SECOND_MS

/**
 * A request's transaction ends in seconds. One that is still open after a minute will stay open for longer: a person
 * should look.
 */
export const DEFAULT_MIGRATION_PATIENCE_MS = 60 * SECOND_MS

/**
 * How long one server of a cluster is waited for when all of them are asked in turn: far longer than an index takes, and short enough that
 * a round that meets a frozen server still ends.
 */
export const ASK_SERVER_MS = 4_000

/** How long a server of a cluster that did not answer is left alone: a restart takes seconds, and a lease is not much longer. */
export const SERVER_AWAY_MS = 15_000

/** The share of a deadline after which the server gives up by itself: its connection then need not be given up. */
export const SERVER_SIDE_SHARE = 0.75

/** The least time for the leases of one shard, when many are renewed in turn: fifty times what it takes. */
export const MIN_GROUP_RENEWAL_MS = 250

/** Keys, or jobs, that one statement of an erasure deletes: as many as the reaper does, and for the same reason. */
export const ERASE_BATCH_SIZE = 500

/** Effects, or interventions, whose copies without names travel in one message: as many statements as a deadline is meant for. */
export const ERASE_COPY_BATCH_SIZE = 100

/** What an erasure had to keep is named up to this many times, and counted beyond. */
export const MAX_KEPT_NAMED = 1_000

/**
 * After this many rows that somebody else has locked, an erasure no longer looks for the one to blame, but leaves the whole batch for the
 * next time: with the reaper's patience of 100 ms for each, it then ends in seconds, whatever is locked.
 */
export const ERASE_LOCK_WAITS = 20

/** A scope of fewer characters than this, such as `7`, may be in a reason by chance. */
export const MIN_SCOPE_IN_REASON = 4

/** Pause between two tries to record pipelines: nobody waits for it, and a database that is away has other things to do. */
export const RECORD_RETRY_MS = 60 * SECOND_MS

/** How often counts of duplicates are written: a person looks at minutes, and a crash loses no more than this. */
export const DEFAULT_COUNT_EVERY_MS = 10 * SECOND_MS

/** More often, writing the counts would cost more than the duplicates. */
export const MIN_COUNT_EVERY_MS = 100

/** They are counted in the minute in which they are written: any later would be another one. */
export const MAX_COUNT_EVERY_MS = 60 * SECOND_MS

/**
 * Counts of duplicates, one for each scope and pipeline, that an engine has in memory at a time: a few hundred kilobytes. Further scopes are
 * counted together.
 */
export const MAX_DUPLICATE_COUNTS = 1_000

/** How long a connection of the pool waits, which requests may need, to write what none of them needs: duplicates and pipelines. */
export const ASIDE_LOCK_TIMEOUT_MS = 100

/** How long counts of duplicates are kept: who looks later than that looks at metrics. */
export const DUPLICATES_RETENTION_MS = 24 * HOUR_MS
