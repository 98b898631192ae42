import type { Pipeline, Stage, Write } from '@pawl/core'

/** `request.pawl`, on a marked route. */
export interface PawlRequest {
  /** The key this request runs under: the client's, or one that was generated for it. */
  readonly key: string
  /** Writes rows in the transaction of an atomic handler, without a round trip of their own. */
  readonly write: Write
  /** Stages a job in the transaction of an atomic handler: it exists exactly when the handler's rows do. */
  readonly stage: Stage
  /**
   * Runs the pipeline under the client's key and answers: with its response, with the stored one, or with a problem.
   * Return its result from the handler, and send no other answer.
   *
   * @example
   * app.post('/rides', { schema, idempotency: true }, (request) => request.pawl.run(createRide, request.body))
   */
  readonly run: <DB, Input>(pipeline: Pipeline<DB, Input>, input: NoInfer<Input>) => Promise<void>
}
