import type { AddressInfo } from 'node:net'
import { StripeStandIn } from './stripe-stand-in.js'

/** The stand-in's process. Its ledger is in `LEDGER_FILE`, and it listens at `PORT`. */
const { LEDGER_FILE: ledgerFile = 'ledger.jsonl', PORT: port = '12111' } = process.env
const server = new StripeStandIn(ledgerFile).server()
server.listen(Number(port), '127.0.0.1', () => {
  const { port: listening } = server.address() as AddressInfo
  console.log(JSON.stringify({ msg: `stand-in listening at http://127.0.0.1:${listening}` }))
})
process.once('SIGTERM', () => process.exit(0))
