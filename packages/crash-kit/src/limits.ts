/** Recoveries of one case before the completer has to end it: more than two faults can need, and most of ten. */
export const MAX_ATTEMPTS = 15

/** Rounds of the completer that a key may need once faults have stopped: more time passes before each. */
export const MAX_COMPLETER_ROUNDS = 12

/** How often a case is moved on before it counts as endless: a run of a long pipeline has some hundred positions. */
export const MAX_MOVES = 5_000

/** A call that is to time out does so after this: long for a socket on the same machine, short to wait for. */
export const SHORT_CALL_TIMEOUT_MS = 400

/** A statement that is to time out does so after this. */
export const SHORT_STATEMENT_TIMEOUT_MS = 300

/** Longer than PostgreSQL's deadlock_timeout of a second, so that a deadlock is found and not a lock's time-out. */
export const LONG_LOCK_TIMEOUT_MS = 8_000

/** Longer than that, so that it is the lock's time-out that ends a wait, if any does. */
export const LONG_STATEMENT_TIMEOUT_MS = 10_000

/** The lease that goes with them: time-outs have to be shorter. */
export const LONG_LEASE_MS = 30_000

/** How long a rival waits for a lock of an actor that stands still: shorter than the shortest lease that can be set. */
export const RIVAL_LOCK_TIMEOUT_MS = 50

/** How long a statement waits for the whole table of keys, where that is locked: shorter than the shortest lease, too. */
export const TABLE_LOCK_TIMEOUT_MS = 50

/**
 * A statement that has waited so long for that table has no such bound: a hundred times its time-out, so that a machine with
 * much else to do is no reason; and less than the kit's own time-out for locks.
 */
export const UNBOUNDED_WAIT_MS = 5_000

/** A lease whose renewal is waited for: its first one is due after a third of it. */
export const RENEWED_LEASE_MS = 3_000

/** How long a signal is waited for that a correct engine gives within a second, on a machine with much else to do. */
export const SIGNAL_TIMEOUT_MS = 20_000

/** How often Postgres is asked whether a session waits for a lock. */
export const BLOCKED_POLL_MS = 4

/** Commits that a failover loses one more of each time; beyond, all at once. Few requests have as many. */
export const MAX_COUNTED_LOSS = 12

/** How far the clock of a machine may be off: an hour, as in the design's list of faults. */
export const SKEW_MS = 3_600_000

/** How far the clock of another server may be ahead: longer than a call and the quiet time after it mostly are. */
export const CLOCK_AHEAD_MS = 3_600_000

/**
 * How far it may be behind: longer than the longest lease that can be set, a day, and what the engine adds to that before it
 * takes a lease for one of another clock. Nobody can mean to hold a key for as long.
 */
export const CLOCK_BEHIND_MS = 48 * 3_600_000

/** Older than every retention and every cap by age: what only the reaper may look at. */
export const LONG_TIME_MS = 500 * 24 * 3_600_000

/** Connections of one actor: a request needs one at a time. */
export const POOL_SIZE = 3

/** Runs of `races`, unless told otherwise. */
export const DEFAULT_RACES = 100

/** Any number does; fixed, so that a run of the tests is the same everywhere. */
export const DEFAULT_SEED = 20_170_927

/** Time for one case on a machine with much else to do: several times what the slowest takes. */
export const CASE_TIMEOUT_MS = 60_000

/** Time for all second faults in the recovery from one: a long pipeline has hundreds of them. */
export const RECOVERY_TIMEOUT_MS = 30 * CASE_TIMEOUT_MS

/** What a request to the fake provider may weigh: more than any API call, and a runaway body does not fill the memory. */
export const MAX_PROVIDER_BODY_BYTES = 1024 * 1024

/** What the fake provider asks for with a 429 or a 503: the least that the header can say. */
export const PROVIDER_RETRY_AFTER_S = 1

// What a person reads of a finding.

/** Columns that a finding may take: what fits a terminal beside an editor, and CI's logs. */
export const FINDING_WIDTH = 110

/** Columns of a timeline that the name of an actor, and of a recovery point, get before they are wrapped. */
export const MAX_WHO_WIDTH = 16
export const MAX_POINT_WIDTH = 28

/** Columns that a text gets however wide the others are: a word must fit. */
export const MIN_TEXT_WIDTH = 20

/** Longest text that is shown in one cell or for one violation, in characters. The `Finding` has all of it. */
export const MAX_SHOWN_TEXT = 600

/** Entries of a timeline that are shown: the beginning sets the scene, what went wrong is near the end. */
export const SHOWN_FIRST_ENTRIES = 30
export const SHOWN_LAST_ENTRIES = 90

/** Violations that are shown beside the most important one: the rest mostly follow from them. */
export const MAX_SHOWN_VIOLATIONS = 10

/** Lines of a stack below a finding: enough to see which test it was. */
export const MAX_STACK_LINES = 5

/** Frames that are looked through for those. The kit's own come first, and are many. */
export const MAX_STACK_FRAMES = 100

/** Planned faults that are named when they did not fire; more have the same reason. */
export const MAX_SHOWN_MISSING = 100

// The oracle.

/** Differences from the clean run that are told one by one: more have the same reason. */
export const MAX_DIFFERENCES = 10

/** Characters of one value that a violation shows: a uuid, a short row, the beginning of a long one. */
export const MAX_SHOWN_VALUE = 200

/** From this length on a text that differs between two runs is an id, and not found in another text by chance. */
export const MIN_ID_LENGTH = 8

/** How far a time may be from a run and still be that run's: deadlines and dates of the day, in any time zone. */
export const RUN_TIME_SLACK_MS = 48 * 3_600_000

/** Numbers between these are seconds, or with three more digits milliseconds, of 2001 to 2103. */
export const FIRST_EPOCH_S = 1_000_000_000
export const LAST_EPOCH_S = 4_200_000_000

// The kit's place on a database.

/** The oldest major version of PostgreSQL that Pawl works with. */
export const MIN_SERVER_VERSION = 15

/** Rows of one table that are copied: more would make each run of the tests wait, and no pipeline needs them. */
export const MAX_COPIED_ROWS = 10_000

/** Connections of the kit's own: a fault that holds a row, one that looks, one that meddles, and some to spare. */
export const KIT_POOL_SIZE = 5

/** How long the kit waits for a lock before it says so. Longer than an actor waits for one that the kit holds. */
export const KIT_LOCK_TIMEOUT_MS = 15_000

/** How long the kit waits for the key's row: no statement of an actor that moves holds it for as long. */
export const MEDDLE_LOCK_TIMEOUT_MS = 250

/** How long taking commits back waits for a table: only an actor that stands still holds one for as long. */
export const UNDO_LOCK_TIMEOUT_MS = 2_000

/** How often the server is asked whether connections have ended; it takes about a millisecond. */
export const BACKEND_POLL_MS = 5

/** What PostgreSQL keeps of an application_name. */
export const MAX_APPLICATION_NAME_BYTES = 63

// Child processes.

/** Time for a child on a machine with much else to do. Shorter than a case's, so that the kit says what it was. */
export const CHILD_TIMEOUT_MS = 45_000

/** What is kept of what a child printed: the end of it tells why it ended. */
export const CHILD_STDERR_BYTES = 16 * 1024

/** Lines of that which an error shows: an exception with its stack. */
export const CHILD_STDERR_LINES = 20
