import type { FastifyBaseLogger } from 'fastify'

const drop = (): void => {}

/** A logger that passes on the errors, and drops everything else. */
export function errorLog(onError: ((error: Error) => void) | undefined): FastifyBaseLogger {
  const tell = (what: unknown): void => {
    const { err } = (what ?? {}) as { readonly err?: unknown }
    if (err instanceof Error) onError?.(err)
  }
  const log: FastifyBaseLogger = {
    level: 'error',
    fatal: tell,
    error: tell,
    warn: drop,
    info: drop,
    debug: drop,
    trace: drop,
    silent: drop,
    child: () => log,
  }
  return log
}
