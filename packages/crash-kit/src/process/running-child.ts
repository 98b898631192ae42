import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import type { Readable } from 'node:stream'
import { CHILD_STDERR_BYTES } from '../limits.js'
import { type ChildSays, type ChildStart, type FromChild, LAST_WORDS_FD, type ToChild } from './messages.js'

/** How a child ended. */
export interface ChildEnd {
  /** The position at which it said it would die; empty if it did not mean to. */
  readonly lastWords: string
  readonly code: number | null
  readonly signal: string | null
  /** The end of what it printed. */
  readonly stderr: string
}

/** One child process, from its start to its end. */
export class RunningChild {
  /** Rejects with the reason it was stopped for, or with what `hear` threw. */
  readonly ended: Promise<ChildEnd>
  readonly #child: ChildProcess
  readonly #lastWords: Tail
  readonly #stderr: Tail
  #heard = Promise.resolve()
  #failure: { readonly reason: unknown } | null = null

  /** `hear` is awaited for each of its messages, one after the other; the child goes on then. */
  constructor(execArgv: readonly string[], start: ChildStart, hear: (says: ChildSays) => Promise<void>) {
    this.#child = forkMain(execArgv)
    this.#lastWords = new Tail(this.#child.stdio[LAST_WORDS_FD] as Readable)
    this.#stderr = new Tail(this.#child.stderr as Readable)
    this.#child.on('message', ({ id, says }: FromChild) => {
      this.#heard = this.#heard
        .then(() => hear(says))
        .then(
          () => this.#send({ type: 'go', id }),
          (error: unknown) => this.stop(error),
        )
    })
    this.ended = this.#whenEnded()
    this.#send({ type: 'start', start })
  }

  /** The end of what it printed so far. */
  get stderr(): string {
    return this.#stderr.text
  }

  /** Kills it. */
  stop(reason: unknown): void {
    this.#failure ??= { reason }
    this.#child.kill('SIGKILL')
    // A process that the child has started may have them open, too.
    this.#lastWords.close()
    this.#stderr.close()
  }

  async #whenEnded(): Promise<ChildEnd> {
    const [code, signal] = (await once(this.#child, 'close')) as [number | null, string | null]
    await this.#heard
    if (this.#failure !== null) throw this.#failure.reason
    return { lastWords: this.#lastWords.text, code, signal, stderr: this.stderr }
  }

  /** A child that has ended meanwhile hears nothing; its end tells all. */
  #send(message: ToChild): void {
    this.#child.send(message, () => {})
  }
}

function forkMain(execArgv: readonly string[]): ChildProcess {
  // By its name: these sources may be loaded by something that Node itself does not have.
  const main = createRequire(import.meta.url).resolve('@pawl/crash-kit/child')
  const child = fork(main, {
    execArgv: [...execArgv],
    // Keeps bytes and dates as they are.
    serialization: 'advanced',
    stdio: ['ignore', 'inherit', 'pipe', 'ipc', 'pipe'],
  })
  // One that only computes would not notice that this process is gone.
  const kill = (): void => void child.kill('SIGKILL')
  process.once('exit', kill)
  child.once('close', () => process.off('exit', kill))
  return child
}

/** The end of what comes out of a stream. */
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
