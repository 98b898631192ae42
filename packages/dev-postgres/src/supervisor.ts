/**
 * A process of its own that owns one PostgreSQL server. It obeys commands from the process that started it, and when
 * that process is gone, killed or not, it stops the server, removes its files and ends.
 */
import { findBinaries } from './binaries.js'
import type { Command, Reply, Request, ServerStatus } from './messages.js'
import { PostgresServer } from './postgres-server.js'
import { findServerUser } from './server-user.js'

let server: PostgresServer | undefined

async function obey(command: Command): Promise<ServerStatus> {
  switch (command.name) {
    case 'start':
      server = await createServer(command.settings, command.port)
      await server.start()
      return server.status
    case 'kill':
      await startedServer().kill()
      return startedServer().status
    case 'restart':
      await startedServer().stop()
      await startedServer().start()
      return startedServer().status
    case 'stop':
      await startedServer().stopWhenLeft()
      await startedServer().remove()
      return startedServer().status
  }
}

async function createServer(settings: Readonly<Record<string, string>>, port: number | null) {
  const user = await findServerUser()
  const binaries = await findBinaries(user)
  return PostgresServer.create({ binaries, user, settings, port })
}

function startedServer(): PostgresServer {
  if (server === undefined) throw new Error('PostgreSQL was not started.')
  return server
}

async function answer({ id, command }: Request): Promise<void> {
  try {
    await send({ id, status: await obey(command) })
    if (command.name === 'stop') letGo()
  } catch (error) {
    await send({ id, error: error instanceof Error ? error.message : String(error) })
    if (command.name === 'start') letGo()
  }
}

async function send(reply: Reply): Promise<void> {
  // The process that started us may be gone by now, and then nobody wants to know.
  await new Promise((resolve) => (process.connected ? process.send?.(reply, resolve) : resolve(null)))
}

/** Closes the channel from this side; the clean-up follows as if the process that started us had ended. */
function letGo(): void {
  if (process.connected) process.disconnect()
}

// One thing at a time: if the process that started us dies in the middle of a start, we clean up once that start has
// ended.
let queue: Promise<void> = Promise.resolve()

process.on('message', (request) => {
  queue = queue.then(() => answer(request as Request))
})

function cleanUpAndExit(): void {
  queue = queue.then(() => server?.remove()).finally(() => process.exit())
}

process.on('disconnect', cleanUpAndExit)
process.on('SIGTERM', cleanUpAndExit)
process.on('SIGINT', cleanUpAndExit)
