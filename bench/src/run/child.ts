import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { FREEZE, type Reply, type Request } from './messages.js'

/**
 * A process of the bench, asked by messages. It ends when this process does: the channel between them is its lifeline.
 */
export class Child<Commands extends Record<string, { readonly asks: unknown; readonly gives: unknown }>> {
  readonly name: string
  readonly #process: ChildProcess
  readonly #waiting = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>()
  #lastId = 0
  #isFrozen = false
  #isStopping = false

  constructor(name: string, script: string, args: readonly string[] = []) {
    this.name = name
    this.#process = fork(fileURLToPath(new URL(`../${script}`, import.meta.url)), args, {
      env: { ...process.env, NODE_ENV: 'production' },
      // What a library prints must not get into a report that a machine reads.
      stdio: ['pipe', 'ignore', 'inherit', 'ipc'],
      serialization: 'advanced',
    })
    this.#process.on('message', (reply) => this.#settle(reply as Reply))
    // A process that has ended cannot be thawed, and reports that itself.
    this.#process.stdin?.on('error', () => {})
    this.#process.on('error', (error) => this.#rejectAll(error))
    this.#process.on('exit', (code, signal) => {
      if (!this.#isStopping)
        this.#rejectAll(new Error(`The process of ${name} ended with ${signal ?? `code ${code}`}.`))
    })
  }

  ask<Name extends keyof Commands & string>(
    name: Name,
    argument: Commands[Name]['asks'],
  ): Promise<Commands[Name]['gives']> {
    return this.#ask(name, argument)
  }

  #ask<Value>(name: string, argument: unknown): Promise<Value> {
    this.thaw()
    const id = ++this.#lastId
    const request: Request = { id, name, argument }
    return new Promise<Value>((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.#process.send(request, (error) => {
        if (error !== null) reject(new Error(`${this.name} cannot be asked to ${name}.`, { cause: error }))
      })
    })
  }

  /** Stops everything in the process, timers and all, until it is asked again. */
  async freeze(): Promise<void> {
    if (this.#isFrozen) return
    await this.#ask(FREEZE, null)
    this.#isFrozen = true
  }

  /** Ends a freeze. What is asked ends it, too. */
  thaw(): void {
    if (this.#isFrozen) this.#process.stdin?.write(' ')
    this.#isFrozen = false
  }

  /** Ends the process, whatever it is doing. */
  async stop(): Promise<void> {
    this.#isStopping = true
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return
    const ended = once(this.#process, 'exit')
    this.#process.kill('SIGKILL')
    await ended
  }

  #settle(reply: Reply): void {
    const waiting = this.#waiting.get(reply.id)
    this.#waiting.delete(reply.id)
    if ('error' in reply) waiting?.reject(new Error(`${this.name}: ${reply.error}`))
    else waiting?.resolve(reply.value as never)
  }

  #rejectAll(error: Error): void {
    for (const { reject } of this.#waiting.values()) reject(error)
    this.#waiting.clear()
  }
}
