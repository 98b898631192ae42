import { once } from 'node:events'
import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

// Below the ports that systems lend to outgoing connections (from 32768 on Linux): none of those can take the port
// while a killed server is down and about to restart.
const FIRST_PORT = 20_000
const LAST_PORT = 32_000

const MAX_TRIES = 50

/** A port of 127.0.0.1 that nothing listens on at the moment. */
export async function findFreePort(): Promise<number> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const port = randomInt(FIRST_PORT, LAST_PORT)
    if (await isFree(port)) return port
  }
  throw new Error(`Found no free port between ${FIRST_PORT} and ${LAST_PORT} in ${MAX_TRIES} tries.`)
}

async function isFree(port: number): Promise<boolean> {
  const probe = createServer()
  try {
    probe.listen({ port, host: '127.0.0.1', exclusive: true })
    await once(probe, 'listening')
  } catch {
    return false
  }
  probe.close()
  await once(probe, 'close')
  return true
}
