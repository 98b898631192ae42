import type { Kysely } from 'kysely'
import type { Because } from '../because.js'
import type { Erasure, ErasureReport } from '../erase/erasure.js'
import type { EnqueueOutcome, Outcome, ResumeOutcome } from '../pipeline/outcome.js'
import type { Pipeline } from '../pipeline/pipeline.js'
import type { ExecuteRequest } from '../request/execute-request.js'
import type { Intervention } from './intervention.js'
import type { KeyView } from './key-view.js'

/** A key by its id, together with what only its owner knows about it. */
export interface OwnKey {
  readonly keyId: string
  readonly scope: string
  /** Where its request came in, as its fingerprint says. */
  readonly origin: string
  /** What its key is bound to, if it is. */
  readonly bindTo?: string
}

/** Runs pipelines on one database. */
export interface Engine<DB> {
  /** A Kysely on the same driver, for work outside phases. Inside a phase, use `tx`. */
  readonly db: Kysely<DB>
  /**
   * Runs a request, resumes it, or replays its response. Throws only for wrong use; whatever else happens is an outcome.
   *
   * @example
   * const outcome = await engine.execute(createRide, { scope: user.id, key, input })
   */
  execute<Input>(pipeline: Pipeline<DB, Input>, request: ExecuteRequest<NoInfer<Input>>): Promise<Outcome>
  /**
   * Reserves the key; the completer of `createBackground` runs the phases: woken at once in this process, at its
   * next poll in others. A retry gets the stored response once there is one. Throws only for wrong use.
   *
   * @example
   * const outcome = await engine.enqueue(createRide, { scope: user.id, key, input })
   */
  enqueue<Input>(
    pipeline: Pipeline<DB, Input>,
    request: ExecuteRequest<NoInfer<Input>>,
  ): Promise<EnqueueOutcome>
  /** Resumes an unattended key by its id, with the same checks as a retry by its client. */
  resume(keyId: string): Promise<ResumeOutcome>
  /** Returns a key with its trail; null if there is none. */
  inspect(scope: string, key: string): Promise<KeyView | null>
  /**
   * Keeps a finished key, and with it the answer that retries get, until a later moment: never an earlier one, and at most
   * 400 days from now. `because` is recorded; the role of the pool needs rights on `interventions` for that.
   *
   * @example
   * await engine.extend(scope, key, endOfDispute, { actor: 'disputes', reason: 'Case 4711 is open.' })
   */
  extend(scope: string, key: string, until: Date, because?: Because): Promise<Intervention>
  /**
   * Removes what the requests of a scope, or those of one of its keys, have left: finished keys and dead jobs are deleted; what has to
   * stay for reconciliation keeps hashes in place of names. It goes batch by batch, and may be interrupted and run again. What
   * has to be kept, such as a running request, is reported: erase again later. The role of the pool needs more rights for it: see
   * docs/privacy.md.
   *
   * @example
   * const report = await engine.erase({ scope: user.id, actor: 'account-service', reason: 'Request 4711: account closed.' })
   * if (!report.complete) await eraseAgainLater(report.kept)
   */
  erase(erasure: Erasure): Promise<ErasureReport>
  /**
   * Writes down what its pipelines look like (names, phases, guarantees, settings), so that tools without their code can draw and
   * explain them. `createBackground` and `@pawl/fastify` call it when they start; what is recorded already costs one read. What
   * fails is reported on `pawl:warning`: no request depends on it.
   *
   * @example
   * await engine.recordPipelines() // in a process without background services
   */
  recordPipelines(): Promise<void>
  /**
   * Takes no new work, lets running requests end, and gives back the keys of those that do not within `timeoutMs`.
   * The pool stays open.
   */
  close(options?: { readonly timeoutMs?: number }): Promise<void>
}
