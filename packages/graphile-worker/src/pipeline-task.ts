import type { Engine, JsonValue, Outcome, Pipeline } from '@pawl/core'
import {
  checkKnownOptions,
  checkOptionalFunction,
  invalidOption,
  type OptionOwner,
} from '@pawl/core/internal'
import type { Job, Task } from 'graphile-worker'

/** What `pipelineTask` takes besides the engine and the pipeline. */
export interface PipelineTaskOptions {
  /**
   * Who owns the keys of these jobs. Default: `graphile-worker` and the task's name. Two installations of graphile-worker
   * that share Pawl's tables need different scopes: both count their jobs from 1.
   *
   * @example
   * scope: (job) => `billing ${job.task_identifier}`
   */
  readonly scope?: (job: Job) => string
}

type Unfinished = Exclude<Outcome, { readonly type: 'completed' | 'replayed' }>

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'pipelineTask' }

/**
 * The pipeline has not finished: graphile-worker tries the job again later. `cause` is the error that stopped it, where
 * there is one.
 *
 * @example
 * runner.events.on('job:error', ({ error }) => {
 *   if (error instanceof JobNotDone && error.outcome.type === 'stuck') page(error.message)
 * })
 */
export class JobNotDone extends Error {
  override readonly name = 'JobNotDone'
  /** What became of the pipeline this time. */
  readonly outcome: Unfinished

  constructor(job: Job, outcome: Unfinished) {
    super(`Job ${job.id} (${job.task_identifier}) is not done: ${describe(outcome)}.`, {
      cause: 'error' in outcome ? outcome.error : undefined,
    })
    this.outcome = outcome
  }
}

/**
 * A task that runs a pipeline once per job, however often graphile-worker delivers it: the job's key, or its id, is the
 * idempotency key. A phase with a foreign call resumes instead of calling twice. Throws `JobNotDone` when the pipeline
 * has not finished.
 *
 * A stored response ends the job whatever its status: `respond(402)` is an answer, too, and a retry would only replay it.
 * Use `retryLater()` or a 5xx for what should be tried again.
 *
 * @example
 * await run({ pgPool: pool, taskList: { send_receipt: pipelineTask(engine, sendReceipt) } })
 */
export function pipelineTask<DB, Input>(
  engine: Engine<DB>,
  pipeline: Pipeline<DB, Input>,
  options: PipelineTaskOptions = {},
): Task {
  // Checked here and not at the first job, which another process runs, perhaps at night.
  if (typeof (engine as Partial<Engine<DB>> | undefined)?.execute !== 'function')
    throw invalidOption(OWNER, 'engine', engine, 'what createEngine returns')
  if (typeof (pipeline as Partial<Pipeline<DB, Input>> | undefined)?.describe !== 'function')
    throw invalidOption(OWNER, 'pipeline', pipeline, 'a pipeline, complete with its finish()')
  checkKnownOptions(OWNER, options, ['scope'])
  checkOptionalFunction(OWNER, 'scope', options.scope)
  const { scope = (job) => `graphile-worker ${job.task_identifier}` } = options
  return async (payload, { job }) => {
    const outcome = await engine.execute(pipeline, {
      scope: scope(job),
      key: job.key ?? `job ${job.id}`,
      input: payload as NoInfer<Input>,
      // The id says everything: with a payload that graphile-worker merged or rewrote, it is still the same job.
      fingerprint: { task: job.task_identifier, job: job.key ?? job.id } satisfies JsonValue,
    })
    if (outcome.type === 'completed' || outcome.type === 'replayed') return
    throw new JobNotDone(job, outcome)
  }
}

/**
 * graphile-worker stores this text. An error's own message may contain secrets: it is in `cause` and, redacted, with the
 * key.
 */
function describe(outcome: Unfinished): string {
  switch (outcome.type) {
    case 'in_flight':
      return outcome.fencedOff ? 'another worker took it over' : 'another worker runs it'
    case 'mismatch':
      return `its key belongs to another ${outcome.differs === 'request' ? 'job' : 'pipeline'}`
    case 'expired':
      return `it was done before (key ${outcome.keyId}, deleted since) and is not done again`
    case 'limited':
      return 'its scope has reached a limit'
    case 'retry_later':
      return `it stopped at '${outcome.recoveryPoint}' (${outcome.reason}, key ${outcome.keyId}) and can go on`
    case 'stuck':
      return `it is stuck at '${outcome.recoveryPoint}' (${outcome.reason}, key ${outcome.keyId}) until a person decides`
    case 'refused':
      return `this process cannot run it: ${outcome.detail}`
    case 'unavailable':
      return 'the database is not available'
  }
}
