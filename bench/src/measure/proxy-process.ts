import { Child } from '../run/child.js'
import type { ProxyCommands } from './proxy-commands.js'
import type { Traffic } from './proxy.js'

/** The proxy in a separate process, because it keeps a core busy while it holds something back. */
export interface ProxyProcess {
  /** The database, seen through the proxy. */
  readonly url: string
  /** How much longer a round trip should take. */
  delayBy(roundTripMs: number): Promise<void>
  traffic(): Promise<Traffic>
  close(): Promise<void>
}

export async function startProxy(databaseUrl: string): Promise<ProxyProcess> {
  const child = new Child<ProxyCommands>('the proxy', 'measure/proxy-main.js')
  const url = new URL(databaseUrl)
  url.port = String(await child.ask('open', { targetUrl: databaseUrl }))
  url.hostname = '127.0.0.1'
  return {
    url: url.href,
    delayBy: (roundTripMs) => child.ask('delay', { roundTripMs }),
    traffic: () => child.ask('traffic', null),
    close: () => child.stop(),
  }
}
