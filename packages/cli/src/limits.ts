const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS

/** How long to wait for a connection: to a person who waits, a database that takes longer is away. */
export const CONNECT_TIMEOUT_MS = 10 * SECOND_MS

/** A command runs one query after the other; the second connection is for a query during a long one. */
export const MAX_CONNECTIONS = 2

/**
 * If keys are unattended, or jobs due, for longer than this, no completer, or no relay, seems to be running. Ten times a
 * default lease.
 */
export const DEFAULT_OVERDUE_MS = 5 * MINUTE_MS

/** How often `drain --wait` asks. One small query; nobody rolls out by the second. */
export const DRAIN_POLL_MS = 1 * SECOND_MS

/** How long `drain --wait` waits: longer than any back-off of a key. */
export const DEFAULT_DRAIN_TIMEOUT_MS = 15 * MINUTE_MS

/** How many entries a list shows by default, and at most: more is a job for SQL. */
export const DEFAULT_LIST_LIMIT = 50
export const MAX_LIST_LIMIT = 1_000

/** How many keys one command changes by default, and at most: what a person can look through before and after. */
export const DEFAULT_STEER_LIMIT = 50
export const MAX_STEER_LIMIT = 500

/** Columns that a message gets in a table before it is cut; `show` prints all of it. */
export const MAX_CELL_WIDTH = 60

/** Columns that a scope or a key gets on a terminal: a UUID with a prefix is shown whole, 255 characters are not. */
export const MAX_NAME_WIDTH = 48

/** A wrong word this close to a known one is taken for a typo. */
export const MAX_TYPO_DISTANCE = 3
