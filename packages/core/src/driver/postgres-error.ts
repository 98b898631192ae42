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
 * Whether a prepared statement of ours is gone (DISCARD, DEALLOCATE), or one is of no use any more (a column has changed its
 * type). Not by the SQLSTATE alone: statements of the application may fail with the same. Nor by more of the message than our
 * own name in it: servers translate the rest, quotation marks included.
 */
export function isPreparedInVain(error: unknown): boolean {
  const { message } = error as { readonly message: string }
  return (sqlStateOf(error) === '26000' && message.includes('pawl_')) || isOfChangedRows(error)
}

/** Whether a prepared statement is refused since its rows would not look as they did. */
export function isOfChangedRows(error: unknown): boolean {
  return (error as { readonly routine?: string } | undefined)?.routine === 'RevalidateCachedQuery'
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
