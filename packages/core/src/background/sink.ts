import { checkFunction, type OptionOwner } from '../check-option.js'
import { PawlError } from '../errors.js'
import { ABORT_GRACE_MS, DELIVER_EACH_CONCURRENCY } from '../limits.js'
import type { JsonValue } from '../pipeline/json-value.js'
import type { ClaimedJob } from '../storage/jobs/claiming.js'

/** A staged job as a sink receives it. */
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
  /** The W3C `traceparent` of the key's first request, for the queue to carry on; null where that was not traced. */
  readonly traceparent: string | null
}

/** What became of one job. */
export type Delivery =
  | { readonly type: 'delivered' }
  /** It is tried again later. With `dead` it is not: a person decides. */
  | { readonly type: 'failed'; readonly error: unknown; readonly dead?: boolean }

/** Hands jobs to a queue. */
export interface Sink {
  /**
   * Called with no transaction open. Returns one result per job, in their order. Throwing counts for all of them. It must
   * end when `signal` is aborted, and may then still report what was delivered: any later, and other processes deliver
   * the same jobs again.
   */
  deliver(
    jobs: readonly JobToDeliver[],
    context: { readonly signal: AbortSignal },
  ): Promise<readonly Delivery[]>
}

const DELIVER_EACH: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'deliverEach' }

/**
 * Makes a sink from a function that takes one job. The job is delivered when the function returns; it is tried again when
 * the function throws, or does not return in time. A few run at a time.
 *
 * @example
 * const sink = deliverEach((job, { signal }) => queue.send(job.name, job.payload, { deduplicationId: job.id, signal }))
 */
export function deliverEach(
  deliver: (job: JobToDeliver, context: { readonly signal: AbortSignal }) => Promise<unknown>,
): Sink {
  checkFunction(DELIVER_EACH, 'deliver', deliver)
  return {
    async deliver(jobs, context) {
      const { signal } = context
      const deliveries: Delivery[] = []
      const waiting = [...jobs.entries()]
      const late = lateDelivery(signal)
      const work = async (): Promise<void> => {
        for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
          const [index, job] = next
          const trying = signal.aborted ? late : tryToDeliver(() => deliver(job, context))
          deliveries[index] = await Promise.race([trying, late])
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

/** The result of each job that is not done when the signal is aborted; those that are done still count. */
function lateDelivery(signal: AbortSignal): Promise<Delivery> {
  return new Promise((resolve) => {
    const give = (): void => resolve({ type: 'failed', error: signal.reason })
    if (signal.aborted) give()
    else signal.addEventListener('abort', give, { once: true })
  })
}

/**
 * Delivers and returns one result per job, whatever the sink does: even if it throws, returns nonsense, or never answers.
 */
export async function deliverTo(
  sink: Sink,
  jobs: readonly ClaimedJob[],
  timeoutMs: number,
  hurry: AbortSignal,
): Promise<readonly Delivery[]> {
  const ending = new AbortController()
  const { signal } = ending
  const endNow = (): void => ending.abort(hurry.reason)
  let timer = setTimeout(() => ending.abort(tooLate(timeoutMs)), timeoutMs)
  // Gives a sink time to report what it has done by then; we stop waiting for one that ignores its signal.
  const leftBehind = new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      timer = setTimeout(() => reject(signal.reason as Error), ABORT_GRACE_MS)
    })
  })
  hurry.addEventListener('abort', endNow)
  if (hurry.aborted) endNow()
  try {
    const delivering = (async () => sink.deliver(jobs.map(jobToDeliver), { signal }))()
    const deliveries: unknown = await Promise.race([delivering, leftBehind])
    return checkDeliveries(deliveries, jobs.length)
  } catch (error) {
    return jobs.map(() => ({ type: 'failed', error }))
  } finally {
    clearTimeout(timer)
    // `hurry` lives as long as the relay, and must not keep a reference to every delivery there ever was.
    hurry.removeEventListener('abort', endNow)
  }
}

function jobToDeliver(job: ClaimedJob): JobToDeliver {
  const { id, name, payloadJson, keyId, attempts, createdMs, traceparent } = job
  const payload = JSON.parse(payloadJson) as JsonValue
  return { id, name, payload, keyId, attempt: attempts, stagedAt: new Date(createdMs), traceparent }
}

function tooLate(timeoutMs: number): PawlError {
  return new PawlError('PAWL_CALL_TIMEOUT', `The sink did not answer within ${timeoutMs} ms.`)
}

/** Anything but a clear answer counts as not delivered: twice is better than never. */
function checkDeliveries(deliveries: unknown, expected: number): readonly Delivery[] {
  if (!Array.isArray(deliveries) || deliveries.length !== expected) {
    throw new PawlError(
      'PAWL_INVALID_RESULT',
      `The sink got ${expected} jobs and did not return a list of ${expected} results. Wrap a function that takes ` +
        'one job with deliverEach().',
    )
  }
  return Array.from(deliveries, checkDelivery)
}

function checkDelivery(delivery: unknown): Delivery {
  const { type, error, dead } = (delivery ?? {}) as { type?: unknown; error?: unknown; dead?: unknown }
  if (type === 'delivered') return { type }
  if (type === 'failed') return { type, error, dead: dead === true }
  const nonsense = new PawlError(
    'PAWL_INVALID_RESULT',
    "A result of the sink is neither { type: 'delivered' } nor { type: 'failed', error }.",
  )
  return { type: 'failed', error: nonsense }
}
