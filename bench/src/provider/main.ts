import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { serve } from '../run/serve.js'
import type { ProviderCommands } from './commands.js'
import { StandIn } from './stand-in.js'

const standIn = new StandIn()

serve<ProviderCommands>({
  async listen() {
    standIn.server.listen(0, '127.0.0.1')
    await once(standIn.server, 'listening')
    return `http://127.0.0.1:${(standIn.server.address() as AddressInfo).port}`
  },
  refuse(isRefusing) {
    standIn.isRefusing = isRefusing
  },
  count: () => standIn.count,
  forget: () => standIn.forget(),
})
