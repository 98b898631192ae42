import { ConfigError } from './config.js'

/** Ends the process in order on SIGTERM or Ctrl-C; a second signal ends it at once. */
export function drainOnSignal(drain: () => Promise<void>): void {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.once(signal, () => {
      drain().then(
        () => process.exit(0),
        (error: unknown) => exitOnError(error),
      )
    })
  }
}

/** Reports a wrong environment in one line per variable, and anything else with its stack. */
export function exitOnError(error: unknown): void {
  if (error instanceof ConfigError) console.error(error.message)
  else if (isReadOnly(error)) console.error(READ_ONLY)
  else console.error(error)
  process.exit(1)
}

const READ_ONLY =
  'DATABASE_URL names a server that does not take writes: a standby, or a database that is set to read-only. It takes the primary.'

/** SQLSTATE read_only_sql_transaction. */
function isReadOnly(error: unknown): boolean {
  const { code, cause } = (error ?? {}) as { readonly code?: unknown; readonly cause?: unknown }
  return code === '25006' || (cause !== undefined && isReadOnly(cause))
}
