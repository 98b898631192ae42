import { aesGcm } from '@pawl/core'
import type { FastifyBaseLogger } from 'fastify'
import type { Config } from './config.js'

/** A console that runs beside the API, in its process. */
interface OpenConsole {
  readonly close: () => Promise<void>
}

/** Serves the console on 127.0.0.1. What it needs is loaded only then. Null where nobody has asked for it. */
export async function openConsole(
  { consolePort, consoleToken, databaseUrl, protectKey }: Config,
  log: FastifyBaseLogger,
): Promise<OpenConsole | null> {
  if (consolePort === null) return null
  const { startConsole } = await import('@pawl/console')
  const running = await startConsole({
    url: databaseUrl,
    port: consolePort,
    ...(consoleToken === null ? {} : { token: consoleToken }),
    ...(protectKey === null ? {} : { protect: aesGcm(protectKey) }),
    // Each of these works once. A token of the environment is a secret that its owner has already: it is not logged.
    onAddress: (address) => {
      if (consoleToken === null) log.info(`the console signs in one browser at ${address}`)
    },
    onError: (err) => log.error({ err }, 'the console'),
  })
  log.info(`the console is at ${running.origin}`)
  return running
}
