import type { Traffic } from './proxy.js'

/** What the proxy's process does for the bench. */
export type ProxyCommands = {
  /** Returns the port of a proxy to this server. */
  open: { asks: { readonly targetUrl: string }; gives: number }
  /** How much longer a round trip should take. */
  delay: { asks: { readonly roundTripMs: number }; gives: void }
  traffic: { asks: null; gives: Traffic }
}
