/** Connections of every contender, in all scenarios but the slow provider: twice the cores of a usual database, and more. */
export const POOL_SIZE = 20

/** With all contenders open, each twice for a moment, and their libraries' own connections. */
export const MAX_CONNECTIONS = 400

/** Of one round: more would be a contender that does not work, and waiting for the end of the run would be a waste. */
export const TOLERATED_ERROR_SHARE = 0.5

/** Queries that tell what the proxy adds: enough for a median that does not move. */
export const PROBE_QUERIES = 150

/** Requests whose statements are counted: they hardly differ, and one contender takes a second for each. */
export const MOST_COUNTED = 10
export const LEAST_COUNTED = 1
export const COUNTING_LIMIT_MS = 1_000

/** How wide a terminal is taken to be. */
export const TEXT_WIDTH = 110
