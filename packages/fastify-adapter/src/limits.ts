/** Longest key, in characters: what clients and servers of the HTTP draft agree on. */
export const MAX_KEY_LENGTH = 255

/** Longest scope, in characters, as in core. */
export const MAX_SCOPE_LENGTH = 255

/** Longest wait for the first of two identical requests. A proxy in between gives up after a minute or so. */
export const MAX_WAIT_MS = 10 * 60_000

/**
 * How often those who wait for a key ask again whether it has finished, all together, when it runs in another process. They
 * learn at once of one that finishes in this process.
 */
export const FIRST_POLL_MS = 50
export const MAX_POLL_MS = 500

/**
 * How long a duplicate that was woken to take a key over is given before the next one is: many times what it takes, and
 * little beside a lease.
 */
export const TURN_MS = 1_000

/** How many requests of one scope wait at a time, unless the plugin says otherwise: more than any client sends at once. */
export const DEFAULT_WAITERS_PER_SCOPE = 100

/** How many wait in all: each keeps its request and its socket, which take some ten kilobytes. */
export const MAX_WAITERS = 10_000

/**
 * How long a client is told to wait where nothing better is known: long enough for a failover to begin, short enough that
 * nobody misses the time.
 */
export const DEFAULT_RETRY_AFTER_MS = 1_000

/** Longest wait that a client gets with `Prefer: wait=…`, unless the plugin says otherwise: below what proxies allow. */
export const DEFAULT_MAX_PREFERRED_WAIT_MS = 10_000

/** A hundred years: core accepts no more, since PostgreSQL's timestamps end. */
export const FOREVER_MS = 100 * 365 * 24 * 3_600_000

/**
 * How far a client's clock may be ahead of ours, unless the plugin says otherwise: what Kerberos allows. Clocks that are set
 * by a server of time differ by less than a second, and those that nobody sets by minutes.
 */
export const DEFAULT_MAX_SKEW_MS = 5 * 60_000

/** Longest name of a pipeline in core, which names the pipelines of atomic handlers as well. */
export const MAX_PIPELINE_NAME_LENGTH = 63
