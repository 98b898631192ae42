import { type PawlChannel, subscribe } from '@pawl/core'

/**
 * Loaded into the API's process before it starts (`node --import`), to end or freeze it at one point of the protocol. It
 * uses only what the engine announces; the service itself knows nothing about it.
 */
const { CRASH_AT = '', CRASH_SIGNAL = 'SIGKILL' } = process.env
const [channel = '', phase = ''] = CRASH_AT.split(' ')

const stop = subscribe(channel as PawlChannel, (message) => {
  if (phase !== '' && (message as { readonly phase?: string }).phase !== phase) return
  stop()
  // Nothing after this line runs: the signal arrives before kill() returns.
  process.kill(process.pid, CRASH_SIGNAL)
})
