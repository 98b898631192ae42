import { AsyncLocalStorage } from 'node:async_hooks'
import {
  type Outcome,
  pawl,
  PawlError,
  type Pipeline,
  type PipelineSettings,
  type Respond,
  type Stage,
  type Write,
} from '@pawl/core'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Transaction } from 'kysely'
import type { Answerable } from './answer.js'
import {
  awaitHandler,
  captureReply,
  headOf,
  refusedAnswer,
  type ReplyHead,
  restoreHead,
} from './capture-reply.js'
import { copyPlain } from './copy-plain.js'
import { guardReply } from './guard-reply.js'
import { FOREVER_MS, MAX_PIPELINE_NAME_LENGTH } from './limits.js'
import type { StoredHeaders } from './stored-headers.js'

/** A pipeline on whatever database the engine has. */
export type AtomicPipeline = Pipeline<any, null>

/**
 * One try of an atomic handler, in a transaction of its own. After a conflict there is another, while branches of the
 * first may still be running. What those ask for belongs to the try they began in, never to the one that goes on.
 */
interface AtomicTry {
  readonly of: AtomicRun
  readonly tx: Transaction<any>
  readonly write: Write
  readonly stage: Stage
  ended: boolean
  /** Something that the handler did and must not do. */
  refused: PawlError | null
}

/** What an atomic handler works with. */
type AtomicTransaction = Pick<AtomicTry, 'tx' | 'write' | 'stage'>

/** The try that the calling code belongs to. */
const currentTry = new AsyncLocalStorage<AtomicTry>()
/** The request that the engine is running: its pipeline is declared once per route. */
const currentRun = new AsyncLocalStorage<AtomicRun>()

/** One request to an atomic handler: all of its tries. */
export class AtomicRun {
  /** Whether the handler asked for its transaction, the last time it ran. */
  used = false
  /** Status and headers as hooks left them. */
  readonly head: ReplyHead
  readonly #request: FastifyRequest
  readonly #reply: FastifyReply
  readonly #handler: () => unknown
  readonly #storedHeaders: StoredHeaders
  readonly #sent: Pick<FastifyRequest, 'body' | 'query' | 'params'>
  #tries = 0
  #latest: AtomicTry | null = null

  constructor(reply: FastifyReply, handler: () => unknown, storedHeaders: StoredHeaders) {
    const { body, query, params } = reply.request
    this.#request = reply.request
    this.#reply = reply
    this.#handler = handler
    this.#storedHeaders = storedHeaders
    this.head = headOf(reply)
    this.#sent = copyPlain({ body, query, params }) as Pick<FastifyRequest, 'body' | 'query' | 'params'>
  }

  /** Lets the engine run it, through `execute`. */
  async through(execute: () => Promise<Outcome>): Promise<Outcome> {
    const unguard = guardReply(
      this.#reply,
      () => this.#standing(),
      (what) => this.#refuse(what),
    )
    try {
      return await currentRun.run(this, execute)
    } finally {
      this.#end()
      unguard()
    }
  }

  /** The transaction of the try that the caller belongs to; null where that try has ended, or there is none. */
  transaction(): AtomicTransaction | null {
    if (this.#standing() !== 'running') return null
    this.used = true
    return currentTry.getStore() ?? null
  }

  /** Runs the handler once, in this transaction. */
  async attempt({ tx, write, stage }: AtomicTransaction): Promise<Respond> {
    // The engine stops waiting for a try that hangs, but that try may still wake up.
    this.#end()
    const mine: AtomicTry = { of: this, tx, write, stage, ended: false, refused: null }
    this.#latest = mine
    this.used = false
    if (this.#tries++ > 0) this.#restore()
    return currentTry.run(mine, async () => {
      const payload = await awaitHandler(this.#reply, this.#handler).catch((error: unknown) => {
        throw mine.refused ?? error
      })
      if (mine.refused !== null) throw mine.refused
      return captureReply(this.#reply, this.head, payload, this.#storedHeaders)
    })
  }

  #refuse(what: string): void {
    const asking = currentTry.getStore()
    if (asking !== undefined) asking.refused ??= refusedAnswer(this.#reply, what)
  }

  #end(): void {
    if (this.#latest !== null) this.#latest.ended = true
  }

  /** Restores what the handler changed, when its try is undone. */
  #restore(): void {
    restoreHead(this.#reply, this.head)
    Object.assign(this.#request, copyPlain(this.#sent))
  }

  #standing(): 'running' | 'ended' | 'outside' {
    const asking = currentTry.getStore()
    if (asking?.of !== this) return 'outside'
    return asking.ended ? 'ended' : 'running'
  }
}

/**
 * The pipeline of an atomic handler: one local phase. Nothing is ever half-done, so neither crashes nor age make its key
 * stuck.
 */
export function atomicPipeline(method: string, route: string, settings: PipelineSettings): AtomicPipeline {
  // Without the names of parameters, which may change without changing the route.
  const parts = route.replaceAll(/:[A-Za-z0-9_]+/g, '').match(/[A-Za-z0-9_-]+/g) ?? []
  const name = ['atomic', method.toLowerCase(), ...parts].join('.')
  return pawl<any>()
    .pipeline<null>({
      name: name.slice(0, MAX_PIPELINE_NAME_LENGTH),
      version: 1,
      maxAttempts: Number.MAX_SAFE_INTEGER,
      maxAgeMs: FOREVER_MS,
      ...settings,
    })
    .finish(({ tx, write, stage }) => {
      const run = currentRun.getStore()
      if (run === undefined) throw new TypeError(`${name} can only run for a request`)
      return run.attempt({ tx, write, stage })
    })
}

/**
 * The error of an atomic handler, for the application's own error handler: one that nobody expected, or that has its own
 * status. Null where the error is temporary, such as a lost connection, or where there is none.
 */
export function errorOfHandler(
  outcome: Answerable,
): { readonly error: unknown; readonly status: number } | null {
  if (outcome.type !== 'retry_later' || outcome.response !== null) return null
  const { error, reason } = outcome
  const status = statusOf(error)
  return reason === 'unknown_error' || status !== null ? { error, status: status ?? 500 } : null
}

function statusOf(error: unknown): number | null {
  if (typeof error !== 'object' || error === null || error instanceof PawlError) return null
  const { statusCode } = error as { readonly statusCode?: unknown }
  return typeof statusCode === 'number' ? statusCode : null
}
