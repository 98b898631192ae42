import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import type { Readable } from 'node:stream'
import { CHILD_STDERR_BYTES } from '../limits.js'
import {
  type ChildMessage,
  type ChildStart,
  type FromChild,
  CRASH_POSITION_FD,
  type ToChild,
} from './messages.js'

/** How a child ended. */
export interface ChildEnd {
  /** The position at which it announced that it would die; empty if it did not. */
  readonly crashPosition: string
  readonly code: number | null
  readonly signal: string | null
  /** The end of what it printed. */
  readonly stderr: string
}

/** One child process, from its start to its end. */
export class RunningChild {
  /** Rejects with the reason for which it was stopped, or with what `onMessage` threw. */
  readonly ended: Promise<ChildEnd>
  readonly #child: ChildProcess
  readonly #crashPosition: Tail
  readonly #stderr: Tail
  #handled = Promise.resolve()
  #failure: { readonly reason: unknown } | null = null

  /** Awaits `onMessage` for each of its messages, one after the other. Then the child goes on. */
  constructor(
    execArgv: readonly string[],
    start: ChildStart,
    onMessage: (message: ChildMessage) => Promise<void>,
  ) {
    this.#child = forkMain(execArgv)
    this.#crashPosition = new Tail(this.#child.stdio[CRASH_POSITION_FD] as Readable)
    this.#stderr = new Tail(this.#child.stderr as Readable)
    this.#child.on('message', ({ id, message }: FromChild) => {
      this.#handled = this.#handled
        .then(() => onMessage(message))
        .then(
          () => this.#send({ type: 'go', id }),
          (error: unknown) => this.stop(error),
        )
    })
    this.ended = this.#whenEnded()
    this.#send({ type: 'start', start })
  }

  /** The end of what it has printed so far. */
  get stderr(): string {
    return this.#stderr.text
  }

  /** Kills it. */
  stop(reason: unknown): void {
    this.#failure ??= { reason }
    this.#child.kill('SIGKILL')
    // A process that the child started may have these open as well.
    this.#crashPosition.close()
    this.#stderr.close()
  }

  async #whenEnded(): Promise<ChildEnd> {
    const [code, signal] = (await once(this.#child, 'close')) as [number | null, string | null]
    await this.#handled
    if (this.#failure !== null) throw this.#failure.reason
    return { crashPosition: this.#crashPosition.text, code, signal, stderr: this.stderr }
  }

  /** Ignores errors: if the child has ended in the meantime, its end says everything. */
  #send(message: ToChild): void {
    this.#child.send(message, () => {})
  }
}

function forkMain(execArgv: readonly string[]): ChildProcess {
  // By its name, because these sources may be loaded by something that Node itself does not have.
  const main = createRequire(import.meta.url).resolve('@pawl/crash-kit/child')
  const child = fork(main, {
    execArgv: [...execArgv],
    // This keeps bytes and dates as they are.
    serialization: 'advanced',
    stdio: ['ignore', 'inherit', 'pipe', 'ipc', 'pipe'],
  })
  // A child that only computes would not notice that this process is gone.
  const kill = (): void => void child.kill('SIGKILL')
  process.once('exit', kill)
  child.once('close', () => process.off('exit', kill))
  return child
}

/** Keeps the end of what comes out of a stream. */
class Tail {
  readonly #stream: Readable
  #bytes = Buffer.alloc(0)

  constructor(stream: Readable) {
    this.#stream = stream
    stream.on('data', (chunk: Buffer) => {
      this.#bytes = Buffer.concat([this.#bytes, chunk]).subarray(-CHILD_STDERR_BYTES)
    })
  }

  get text(): string {
    return this.#bytes.toString()
  }

  close(): void {
    this.#stream.destroy()
  }
}
