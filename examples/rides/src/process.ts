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

/** A wrong environment is told in its own words, anything else with its stack. */
export function exitOnError(error: unknown): void {
  console.error(error instanceof ConfigError ? error.message : error)
  process.exit(1)
}
