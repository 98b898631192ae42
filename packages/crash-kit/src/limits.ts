/** Attempts of one case before the completer has to end it: more than two faults can need, and more than ten mostly need. */
export const MAX_ATTEMPTS = 15

/** How many rounds of the completer a key may need once faults have stopped. More time passes before each round. */
export const MAX_COMPLETER_ROUNDS = 12

/** How many moves a race may take before it counts as endless. A run of a long pipeline has some hundred positions. */
export const MAX_MOVES = 5_000

/** The time-out of a call that is meant to time out: long for a socket on the same machine, short to wait for. */
export const SHORT_CALL_TIMEOUT_MS = 400

/** The time-out of a statement that is meant to time out. */
export const SHORT_STATEMENT_TIMEOUT_MS = 300

/** Longer than PostgreSQL's deadlock_timeout of a second, so that the deadlock is found before the lock time-out strikes. */
export const LONG_LOCK_TIMEOUT_MS = 8_000

/** Longer than that, so that if a time-out ends a wait, it is the lock time-out. */
export const LONG_STATEMENT_TIMEOUT_MS = 10_000

/** The lease that goes with them, because time-outs have to be shorter than the lease. */
export const LONG_LEASE_MS = 30_000

/** How long a rival waits for a lock that a stopped actor holds: shorter than the shortest lease that can be set. */
export const RIVAL_LOCK_TIMEOUT_MS = 50

/** How long a statement waits for the whole table of keys when it is locked: also shorter than the shortest lease. */
export const TABLE_LOCK_TIMEOUT_MS = 50

/**
 * A statement that has waited this long for that table has no such bound. It is a hundred times the time-out, so that a busy
 * machine cannot be the reason, and less than the kit's own lock time-out.
 */
export const UNBOUNDED_WAIT_MS = 5_000

/** A lease whose renewal the kit waits for. The first renewal is due after a third of it. */
export const RENEWED_LEASE_MS = 3_000

/** How long the kit waits, on a busy machine, for a signal that a correct engine gives within a second. */
export const SIGNAL_TIMEOUT_MS = 20_000

/** How often the kit asks PostgreSQL whether a session waits for a lock. */
export const BLOCKED_POLL_MS = 4

/** Failovers lose one commit more each time, up to this many; beyond, they lose all at once. Few requests have as many. */
export const MAX_COUNTED_LOSS = 12

/** How far a machine's clock is off: an hour, as in the design's list of faults. */
export const SKEW_MS = 3_600_000

/** How far the clock of another server is ahead: longer than most calls and the quiet time after them. */
export const CLOCK_AHEAD_MS = 3_600_000

/**
 * How far it is behind: longer than the longest lease that can be set, which is a day, plus what the engine adds to that before
 * it concludes that a lease was set by another clock. Nobody can mean to hold a key for that long.
 */
export const CLOCK_BEHIND_MS = 48 * 3_600_000

/** Longer than every retention and every age cap, so that only the reaper may touch the key. */
export const LONG_TIME_MS = 500 * 24 * 3_600_000

/** Longer than most retentions, and shorter than that of what tells a retry from a new request: effects, and keys of unknown outcome. */
export const RETIREMENT_MS = 390 * 24 * 3_600_000

/** Connections of one actor. A request needs one at a time. */
export const POOL_SIZE = 3

/** How many schedules `races` runs by default. */
export const DEFAULT_RACES = 100

/** Any number would do. It is fixed so that a run of the tests is the same everywhere. */
export const DEFAULT_SEED = 20_170_927

/** Time for one case on a busy machine: several times what the slowest takes. */
export const CASE_TIMEOUT_MS = 60_000

/** Time for all second faults in the recovery from one fault. A long pipeline has hundreds of them. */
export const RECOVERY_TIMEOUT_MS = 30 * CASE_TIMEOUT_MS

/** The largest body that the fake provider takes: larger than any API call, and small enough that a runaway body cannot fill memory. */
export const MAX_PROVIDER_BODY_BYTES = 1024 * 1024

/** The `retry-after` of the fake provider's 429 and 503: the smallest value that the header allows. */
export const PROVIDER_RETRY_AFTER_S = 1

// How a finding is shown.

/** How many columns wide a finding is: what fits into a terminal beside an editor, and into CI logs. */
export const FINDING_WIDTH = 110

/** Columns of a timeline that the names of actors and recovery points get before they are wrapped. */
export const MAX_WHO_WIDTH = 16
export const MAX_POINT_WIDTH = 28

/** Columns that a text gets however wide the others are, so that a word fits. */
export const MIN_TEXT_WIDTH = 20

/** The longest text, in characters, that is shown in one cell or for one violation. The `Finding` object has all of it. */
export const MAX_SHOWN_TEXT = 600

/** How many entries of a timeline are shown. The first ones show how it began, and what went wrong is near the end. */
export const SHOWN_FIRST_ENTRIES = 30
export const SHOWN_LAST_ENTRIES = 90

/** Violations that are shown beside the most important one. The rest mostly follow from them. */
export const MAX_SHOWN_VIOLATIONS = 10

/** Lines of the stack below a finding: enough to see which test it was. */
export const MAX_STACK_LINES = 5

/** Frames that are searched for those lines. The kit's own frames come first, and there are many. */
export const MAX_STACK_FRAMES = 100

/** How many planned faults that did not fire are named. Any further ones have the same reason. */
export const MAX_SHOWN_MISSING = 100

// The oracle.

/** How many differences from the clean run are listed. Any further ones have the same reason. */
export const MAX_DIFFERENCES = 10

/** Characters of one value that a violation shows: enough for a UUID, a short row, or the beginning of a long one. */
export const MAX_SHOWN_VALUE = 200

/** From this length on, a text that differs between two runs counts as an id, because it is not part of another text by chance. */
export const MIN_ID_LENGTH = 8

/** How far a time may be from a run and still belong to it: this covers deadlines and the day's date in any time zone. */
export const RUN_TIME_SLACK_MS = 48 * 3_600_000

/** Numbers between these count as seconds of the years 2001 to 2103; with three more digits, as milliseconds. */
export const FIRST_EPOCH_S = 1_000_000_000
export const LAST_EPOCH_S = 4_200_000_000

// The kit's part of a database.

/** The oldest major version of PostgreSQL that Pawl works with. */
export const MIN_SERVER_VERSION = 15

/** How many rows of one table are copied. More would slow down each run of the tests, and no pipeline needs them. */
export const MAX_COPIED_ROWS = 10_000

/** The kit's own connections: one for a fault that holds a row, one that reads, one that writes, and some to spare. */
export const KIT_POOL_SIZE = 5

/** How long the kit waits for a lock before it reports an error: longer than an actor waits for a lock that the kit holds. */
export const KIT_LOCK_TIMEOUT_MS = 15_000

/** How long the kit waits for the key's row. No statement of a running actor holds it for that long. */
export const KEY_LOCK_TIMEOUT_MS = 250

/** How long the kit waits for a table when it takes commits back. Only a stopped actor holds one for that long. */
export const UNDO_LOCK_TIMEOUT_MS = 2_000

/** How often the kit asks the server whether connections have ended. Ending takes about a millisecond. */
export const BACKEND_POLL_MS = 5

/** How much PostgreSQL keeps of an application_name. */
export const MAX_APPLICATION_NAME_BYTES = 63

// Child processes.

/** Time for a child on a busy machine. It is shorter than a case's, so that the kit can report which child hung. */
export const CHILD_TIMEOUT_MS = 45_000

/** How much of a child's output is kept. The end of it shows why the child ended. */
export const CHILD_STDERR_BYTES = 16 * 1024

/** How many lines of that an error shows: enough for an exception with its stack. */
export const CHILD_STDERR_LINES = 20
