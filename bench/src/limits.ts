/**
 * Connections of every contender, in all scenarios except the slow provider: more than twice the cores of a usual
 * database.
 */
export const POOL_SIZE = 20

/** Enough for all contenders at once, each open twice for a moment, with their libraries' own connections. */
export const MAX_CONNECTIONS = 400

/** In one round. With more errors, a contender does not work, and waiting for the end of the run would be a waste. */
export const TOLERATED_ERROR_SHARE = 0.5

/** Queries that measure what the proxy adds: enough for a stable median. */
export const PROBE_QUERIES = 150

/** Requests whose statements are counted: few, since they hardly differ and one contender takes a second for each. */
export const MOST_COUNTED = 10
export const LEAST_COUNTED = 1
export const COUNTING_LIMIT_MS = 1_000

/** The assumed width of a terminal. */
export const TEXT_WIDTH = 110
