import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import type { Command, Reply, Request, ServerStatus } from './messages.js'

const SUPERVISOR_SCRIPT = fileURLToPath(new URL('./supervisor.js', import.meta.url))

/**
 * The starting process's end of the channel to its supervisor. The channel is also the life line: the system closes it
 * when this process ends, however it ends, and the supervisor then cleans up.
 */
export class SupervisorClient {
  readonly #ended: Promise<unknown>
  readonly #child: ChildProcess
  readonly #waiting = new Map<
    number,
    { resolve: (status: ServerStatus) => void; reject: (error: Error) => void }
  >()
  #lastId = 0

  constructor() {
    this.#child = fork(SUPERVISOR_SCRIPT, [], {
      // A session of its own, so that Ctrl-C in our terminal reaches us only and the supervisor lives to clean up.
      detached: true,
      // No stream of ours: a supervisor that outlives us by a moment must not hold our caller's pipe open.
      stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
      cwd: tmpdir(),
      // Flags meant for us (a debugger, a loader, coverage) are not meant for it.
      execArgv: [],
      env: { ...process.env, NODE_OPTIONS: '' },
    })
    this.#ended = once(this.#child, 'exit')
    this.#child.on('message', (reply) => this.#settle(reply as Reply))
    this.#child.on('exit', () =>
      this.#rejectAll(new Error('The supervisor of PostgreSQL ended unexpectedly.')),
    )
    this.#child.on('error', (cause) =>
      this.#rejectAll(new Error('The supervisor of PostgreSQL failed.', { cause })),
    )
    this.#child.unref()
  }

  /** Resolves when the supervisor has gone. Waiting for it keeps this process alive, because nothing else would. */
  async ended(): Promise<void> {
    this.#child.ref()
    await this.#ended
  }

  send(command: Command): Promise<ServerStatus> {
    const id = ++this.#lastId
    const request: Request = { id, command }
    return new Promise((resolve, reject) => {
      if (!this.#child.connected) {
        reject(new Error(`Cannot ${command.name} PostgreSQL: it has been stopped already.`))
        return
      }
      this.#waiting.set(id, { resolve, reject })
      // Only an unanswered command keeps this process alive; an idle server must not.
      this.#child.channel?.ref()
      this.#child.ref()
      this.#child.send(request)
    })
  }

  #settle(reply: Reply): void {
    const waiting = this.#waiting.get(reply.id)
    this.#waiting.delete(reply.id)
    this.#unrefWhenIdle()
    if ('error' in reply) waiting?.reject(new Error(reply.error))
    else waiting?.resolve(reply.status)
  }

  #rejectAll(error: Error): void {
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
    this.#unrefWhenIdle()
  }

  #unrefWhenIdle(): void {
    if (this.#waiting.size > 0) return
    this.#child.channel?.unref()
    this.#child.unref()
  }
}
