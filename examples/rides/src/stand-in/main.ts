import type { AddressInfo } from 'node:net'
import { StripeStandIn } from './stripe-stand-in.js'

/** The stand-in's process: `LEDGER_FILE` is where its books are, `PORT` where it listens. */
const { LEDGER_FILE: ledgerFile = 'ledger.jsonl', PORT: port = '12111' } = process.env
const server = new StripeStandIn(ledgerFile).server()
server.listen(Number(port), '127.0.0.1', () => {
  const { port: listening } = server.address() as AddressInfo
  console.log(JSON.stringify({ msg: `stand-in listening at http://127.0.0.1:${listening}` }))
})
process.once('SIGTERM', () => process.exit(0))
