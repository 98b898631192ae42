import { serve } from '../run/serve.js'
import { Proxy } from './proxy.js'
import type { ProxyCommands } from './proxy-commands.js'

let proxy: Proxy | undefined

function opened(): Proxy {
  if (proxy === undefined) throw new TypeError('the proxy is not open')
  return proxy
}

serve<ProxyCommands>({
  open({ targetUrl }) {
    proxy = new Proxy(targetUrl)
    return proxy.listen()
  },
  delay: ({ roundTripMs }) => opened().delayBy(roundTripMs),
  traffic: () => opened().traffic(),
})
