/** The SQLSTATE of a server's error, or null for any other error. */
export function sqlStateOf(error: unknown): string | null {
  if (typeof error !== 'object' || error === null || !('code' in error) || !('severity' in error)) return null
  return typeof error.code === 'string' && /^[0-9A-Z]{5}$/.test(error.code) ? error.code : null
}

/** With these the server also ends the session: shutdown, crash, idle-in-transaction kill. */
const SESSION_ENDING = new Set(['57P01', '57P02', '57P03', '57P05', '25P03', '25P04'])

export function endsSession(sqlState: string): boolean {
  return SESSION_ENDING.has(sqlState)
}

/**
 * Whether a prepared statement of ours is gone (DISCARD, DEALLOCATE), or a prepared statement can no longer be used (a
 * column has changed its type). The SQLSTATE alone is not enough: the application's statements may fail with the same one.
 * In the message, only our own name counts: servers translate the rest, quotation marks included.
 */
export function isPreparedInVain(error: unknown): boolean {
  const { message } = error as { readonly message: string }
  return (sqlStateOf(error) === '26000' && message.includes('pawl_')) || isOfChangedRows(error)
}

/** Whether a prepared statement was refused because its rows would no longer look the same. */
export function isOfChangedRows(error: unknown): boolean {
  return (error as { readonly routine?: string } | undefined)?.routine === 'RevalidateCachedQuery'
}

/** What Citus says of every error that another server has reported to the one that we talk to, and nothing else. */
const ON_ANOTHER_SERVER = /^while executing command on \S+:\d+$/

/** Whether an error comes from a statement itself: one from a trigger, or from a function that it calls, says where. */
export function isOfStatementItself(error: unknown): boolean {
  const { where } = (error ?? {}) as { readonly where?: string }
  return where === undefined || isOfAnotherServer(error)
}

/** Whether another server reported the error to the one that we talk to. */
export function isOfAnotherServer(error: unknown): boolean {
  const { where } = (error ?? {}) as { readonly where?: string }
  return where !== undefined && ON_ANOTHER_SERVER.test(where)
}

const SOCKET_CODES = new Set([
  'ECONNRESET',
  'ECONNREFUSED',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
])

/** Whether a socket's error code says that the peer could not be reached or went away. */
export function isSocketError(error: unknown): boolean {
  return (
    typeof error === 'object' && error !== null && 'code' in error && SOCKET_CODES.has(String(error.code))
  )
}

/**
 * The connection, the server's state, our own statement and rights: no row is to blame, and no other row would fare
 * better.
 */
const NOT_ABOUT_ROWS = /^(?:08|25|42|53|54|57|58|XX)/

/** Constraints, triggers and locks of the application: they concern single rows, and the others can still be deleted. */
export function isAboutRows(error: unknown): boolean {
  const sqlState = sqlStateOf(error)
  return sqlState !== null && !NOT_ABOUT_ROWS.test(sqlState)
}
