const SECOND_MS = 1_000
const MINUTE_MS = 60 * SECOND_MS
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const KIB = 1_024
const MIB = 1_024 * KIB

/** How often the database is asked where requests stand, while anybody looks: as often as a person looks up. */
export const DEFAULT_POLL_MS = 2 * SECOND_MS
/** More often would only cost: the answer itself takes longer on a large table. */
export const MIN_POLL_MS = 100
export const MAX_POLL_MS = 10 * MINUTE_MS

/** Polls take at most this share of the time: where one takes a second, the next comes ten seconds later. */
export const MAX_POLL_SHARE = 0.1

/** How long an answer about the flow of requests is given to others who ask, before the database is asked again. */
export const MAX_FLOW_AGE_MS = 2 * SECOND_MS

/** A connection that says nothing for longer is closed by many proxies; most of them wait a minute. */
export const HEARTBEAT_MS = 15 * SECOND_MS

/** When a browser comes back to a stream that ended. */
export const STREAM_RETRY_MS = 2 * SECOND_MS

/** Then a stream ends and the browser comes back, so that whoever may no longer look stops seeing. */
export const MAX_STREAM_MS = 15 * MINUTE_MS

/** A client that has not read for so long is dropped. It misses what is sent meanwhile, and the next flow has it all. */
export const MAX_UNREAD_MS = 30 * SECOND_MS

/** How long an ended stream may take to get its last bytes out: whoever does not read them keeps the server from closing. */
export const STREAM_END_MS = 1 * SECOND_MS

/** Far more people than look after one database; each costs a socket. */
export const MAX_STREAMS = 200

/** How many rows a list has by default and at most; more come page by page. */
export const DEFAULT_PAGE_ROWS = 50
export const MAX_PAGE_ROWS = 500

/** A hundred years: the database's moments end some time before the largest number. */
export const MAX_AGE_MS = 100 * 366 * DAY_MS

/** How many keys the inbox shows of each reason: more are found in the list, with a filter. */
export const INBOX_KEYS = 20

/** A key that has been due for longer needs somebody: no completer seems to be running. Ten times a default lease. */
export const UNATTENDED_FOR_LONG_MS = 5 * MINUTE_MS

/** How many effects a reconciliation reads: at a hundred bytes of answer per group, what matters is the time it takes to read them. */
export const MAX_RECONCILED_EFFECTS = 50_000
/** How many effects without a reference, and keys in doubt, it lists. */
export const MAX_RECONCILED_ROWS = 200
/** Longer ones are for `reconcile`, which also asks the provider. */
export const MAX_RECONCILED_WINDOW_MS = 31 * DAY_MS

/** For how long duplicates are kept. */
export const MAX_DUPLICATES_MINUTES = 24 * 60
export const DEFAULT_DUPLICATES_MINUTES = 60
/** As many scopes as one looks through; the rest is summed up. */
export const TOP_SCOPES = 50

/** How many interventions a file has: those of a busy year. Ask for a shorter time to get the others. */
export const MAX_EXPORTED_INTERVENTIONS = 10_000
/** How many it reads at once. */
export const EXPORT_BATCH_ROWS = 1_000

/** The response of `answer` is the largest thing anybody sends; core takes less than this. */
export const MAX_BODY_BYTES = 2 * MIB

/** A revealed value that is larger is not sent: a browser would choke on it, and nobody reads it. `pawl show --reveal` prints all. */
export const MAX_REVEALED_BYTES = 256 * KIB

/** How many dead jobs a preview of requeueing counts: as many as core lists at once. */
export const MAX_PREVIEWED_JOBS = 1_000

/** A search text: a key and a scope at most, with some room for what people paste around them. */
export const MAX_SEARCH_LENGTH = 600

/** How long a statement that only reads may take on the server. A person has gone on by then, and the next poll comes anyway. */
export const READ_STATEMENT_MS = 20 * SECOND_MS

/** How long a read waits for a table that is being altered: a request that comes after it would wait as well. */
export const READ_LOCK_MS = 2 * SECOND_MS

/** How many connections reads use at most: what one page asks for at once. The application's pool is left alone. */
export const READ_CONNECTIONS = 4
/** They are closed once nobody looks. */
export const READ_IDLE_MS = 30 * SECOND_MS
/** To a person who waits, a database that takes longer is away. */
export const CONNECT_TIMEOUT_MS = 10 * SECOND_MS

/** The port of `pawl console`: free of well-known services, and easy to find again. */
export const DEFAULT_PORT = 7295

/** How long a session of `pawl console` lasts: a working day. */
export const SESSION_MS = 12 * HOUR_MS
/** Browsers of one person; the oldest is forgotten first. */
export const MAX_SESSIONS = 100

/** Bytes of randomness in a token: nobody guesses 256 bits. */
export const TOKEN_BYTES = 32
/** A token that somebody chose has to be as hard to guess as a good password. */
export const MIN_TOKEN_LENGTH = 16
/** Longer ones do not fit in an address that people copy. */
export const MAX_TOKEN_LENGTH = 512
