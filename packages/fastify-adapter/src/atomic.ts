import { AsyncLocalStorage } from 'node:async_hooks'
import {
  type Outcome,
  pawl,
  PawlError,
  type Pipeline,
  type PipelineSettings,
  type Respond,
  type Stage,
} from '@pawl/core'
import type { FastifyReply } from 'fastify'
import type { Transaction } from 'kysely'
import { awaitHandler, captureReply, guardReply, type ReplyHead, restoreHead } from './capture-reply.js'
import { MAX_PIPELINE_NAME_LENGTH } from './limits.js'

/** A pipeline on whatever database the engine has. */
export type AtomicPipeline = Pipeline<any, null>

/** What an atomic handler works with, while it runs. */
export interface AtomicTransaction {
  readonly tx: Transaction<any>
  readonly stage: Stage
}

/** One request to an atomic handler. `transaction` is there while the handler runs. */
export interface AtomicRun {
  readonly reply: FastifyReply
  /** As it was before the handler. */
  readonly head: ReplyHead
  readonly handler: () => unknown
  readonly storedHeaders: ReadonlySet<string>
  transaction: AtomicTransaction | null
  /** Whether the handler asked for its transaction. */
  used: boolean
}

/** Brings the request to its pipeline, which is declared once per route. */
export const atomicRun = new AsyncLocalStorage<AtomicRun>()

/**
 * The pipeline of an atomic handler: one local phase. Nothing is ever half-done, so neither crashes nor age make its key
 * stuck.
 */
export function atomicPipeline(method: string, route: string, settings: PipelineSettings): AtomicPipeline {
  const name = ['atomic', method.toLowerCase(), ...(route.match(/[A-Za-z0-9_-]+/g) ?? [])].join('.')
  return pawl<any>()
    .pipeline<null>({
      name: name.slice(0, MAX_PIPELINE_NAME_LENGTH),
      version: 1,
      maxAttempts: Number.MAX_SAFE_INTEGER,
      abandonAfterMs: Number.MAX_SAFE_INTEGER,
      ...settings,
    })
    .finish(async ({ tx, stage }) => {
      const run = atomicRun.getStore()
      if (run === undefined) throw new TypeError(`${name} can only run for a request`)
      run.transaction = { tx, stage }
      run.used = false
      try {
        return await runHandler(run)
      } finally {
        run.transaction = null
      }
    })
}

async function runHandler(run: AtomicRun): Promise<Respond> {
  const { reply, head, handler, storedHeaders } = run
  restoreHead(reply, head)
  const release = guardReply(reply)
  try {
    return captureReply(reply, await awaitHandler(reply, handler), storedHeaders)
  } finally {
    release()
  }
}

/**
 * The error of an atomic handler, for the application's own error handler: one that nobody expected, or that has a status
 * of its own. Null where it is of the moment, such as a lost connection, or none.
 */
export function errorOfHandler(outcome: Outcome): { readonly error: unknown } | null {
  if (outcome.type !== 'retry_later' || outcome.response !== null) return null
  const { error, reason } = outcome
  return reason === 'unknown_error' || statusOf(error) !== null ? { error } : null
}

function statusOf(error: unknown): number | null {
  if (typeof error !== 'object' || error === null || error instanceof PawlError) return null
  const { statusCode } = error as { readonly statusCode?: unknown }
  return typeof statusCode === 'number' ? statusCode : null
}
