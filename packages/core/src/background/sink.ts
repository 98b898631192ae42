import { PawlError } from '../errors.js'
import { DELIVER_EACH_CONCURRENCY } from '../limits.js'
import type { JsonValue } from '../pipeline/json-value.js'
import type { ClaimedJob } from '../storage/relay-statements.js'

/** A staged job as a sink gets it. */
export interface JobToDeliver {
  /** Stable identity: the same at every delivery. Give it to the queue as its own deduplication id. */
  readonly id: string
  /** What `stage` was given. */
  readonly name: string
  readonly payload: JsonValue
  /** The key whose phase staged it. */
  readonly keyId: string
  /** Which delivery of the job this is; 1 for the first. */
  readonly attempt: number
  readonly stagedAt: Date
}

/** What became of one job. */
export type Delivery =
  | { readonly type: 'delivered' }
  /** Tried again later. `dead`: not again by itself; a person decides. */
  | { readonly type: 'failed'; readonly error: unknown; readonly dead?: boolean }

/** Hands jobs to a queue. */
export interface Sink {
  /**
   * Called with no transaction open. Gives one result per job, in their order. Throwing counts for all of them. It must
   * end by `signal`: later, other processes deliver the same jobs again.
   */
  deliver(
    jobs: readonly JobToDeliver[],
    context: { readonly signal: AbortSignal },
  ): Promise<readonly Delivery[]>
}

/**
 * A sink of a function that takes one job: what it returns from is delivered, what it throws at is tried again. A few
 * run at a time.
 *
 * @example
 * const sink = deliverEach((job, { signal }) => queue.send(job.name, job.payload, { deduplicationId: job.id, signal }))
 */
export function deliverEach(
  deliver: (job: JobToDeliver, context: { readonly signal: AbortSignal }) => Promise<unknown>,
): Sink {
  return {
    async deliver(jobs, context) {
      const deliveries: Delivery[] = []
      const waiting = [...jobs.entries()]
      const work = async (): Promise<void> => {
        for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
          const [index, job] = next
          deliveries[index] = await tryToDeliver(() => deliver(job, context))
        }
      }
      await Promise.all(Array.from({ length: DELIVER_EACH_CONCURRENCY }, work))
      return deliveries
    },
  }
}

async function tryToDeliver(deliver: () => Promise<unknown>): Promise<Delivery> {
  try {
    await deliver()
    return { type: 'delivered' }
  } catch (error) {
    return { type: 'failed', error }
  }
}

/** Delivers and gives one result per job, whatever the sink does: throws, answers nonsense, or not at all. */
export async function deliverTo(
  sink: Sink,
  jobs: readonly ClaimedJob[],
  timeoutMs: number,
  hurry: AbortSignal,
): Promise<readonly Delivery[]> {
  const timeout = new AbortController()
  const signal = AbortSignal.any([timeout.signal, hurry])
  const timer = setTimeout(() => timeout.abort(tooLate(timeoutMs)), timeoutMs)
  try {
    const delivering = (async () => sink.deliver(jobs.map(jobToDeliver), { signal }))()
    const deliveries: unknown = await Promise.race([delivering, aborted(signal)])
    return checkDeliveries(deliveries, jobs.length)
  } catch (error) {
    return jobs.map(() => ({ type: 'failed', error }))
  } finally {
    clearTimeout(timer)
  }
}

function jobToDeliver({ id, name, payloadJson, keyId, attempts, createdMs }: ClaimedJob): JobToDeliver {
  const payload = JSON.parse(payloadJson) as JsonValue
  return { id, name, payload, keyId, attempt: attempts, stagedAt: new Date(createdMs) }
}

/** Rejects when the signal is aborted: a sink that ignores it is left behind. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const give = (): void => reject(signal.reason as Error)
    if (signal.aborted) give()
    else signal.addEventListener('abort', give, { once: true })
  })
}

function tooLate(timeoutMs: number): PawlError {
  return new PawlError('PAWL_CALL_TIMEOUT', `The sink did not answer in ${timeoutMs} ms.`)
}

/** Anything but a clear answer counts as not delivered: twice is better than never. */
function checkDeliveries(deliveries: unknown, expected: number): readonly Delivery[] {
  if (!Array.isArray(deliveries) || deliveries.length !== expected) {
    throw new PawlError(
      'PAWL_INVALID_RESULT',
      `The sink was given ${expected} jobs and did not return a list of ${expected} results. Wrap a function that takes ` +
        'one job with deliverEach().',
    )
  }
  return deliveries.map((delivery: unknown): Delivery => {
    const type = (delivery as Partial<Delivery> | null | undefined)?.type
    if (type === 'delivered' || type === 'failed') return delivery as Delivery
    const error = new PawlError(
      'PAWL_INVALID_RESULT',
      "A result of the sink is neither { type: 'delivered' } nor { type: 'failed', error }.",
    )
    return { type: 'failed', error }
  })
}
