import { channel } from 'node:diagnostics_channel'
import { PawlError } from '../errors.js'
import { safeError } from '../safe-error.js'
import type { Outcome, StuckReason, RetryReason } from '../pipeline/outcome.js'

/**
 * What every message carries. Key and scope are hashed: listeners log, and logs travel. The hashes are the same in all
 * engines of a process, and in all processes whose engines have the same `hashSecret`.
 */
export interface KeyMessage {
  /** The same for every message about one key of one scope. */
  readonly keyHash: string
  /** The same for every message about one scope. */
  readonly scopeHash: string
  readonly pipeline: string
  readonly version: number
}

/** A message that names the grant it happened under. */
export interface GrantMessage extends KeyMessage {
  /** The id of the key's row, for `engine.resume`. */
  readonly keyId: string
  /** Grows by one at every grant. */
  readonly fence: number
  /** The last phase that had committed. */
  readonly recoveryPoint: string
}

/** A message that names the phase it happened in. */
export interface PhaseMessage extends GrantMessage {
  readonly phase: string
}

/**
 * Every message, by the name of its channel. An `error` is the very one that was thrown, with everything it carries,
 * secrets included. Log `safeError(error)` instead. A `lastError` is already redacted.
 */
export interface PawlMessages {
  /** A fresh key was reserved. */
  'pawl:reserved': GrantMessage
  /** A fresh key was enqueued: the completer runs it. */
  'pawl:enqueued': KeyMessage & { readonly keyId: string }
  /** A stored response was returned. `from`: who was asked for it; a replica or a cache only where the engine was given one. */
  'pawl:replayed': KeyMessage & { readonly keyId: string; readonly from: 'primary' | 'replica' | 'cache' }
  /** Another holder runs the key. */
  'pawl:in_flight': KeyMessage & { readonly retryAfterMs: number; readonly leaseLeftMs: number | null }
  /** The key belongs to another request or pipeline. */
  'pawl:mismatch': KeyMessage & { readonly differs: 'request' | 'pipeline' }
  /** The key was deleted after it had an effect, and is not run again. `keyId`: the id that it had. */
  'pawl:expired': KeyMessage & { readonly keyId: string; readonly settledAt: Date }
  /** The scope had reached a limit, and a new key was refused. */
  'pawl:limited': KeyMessage & Pick<Extract<Outcome, { type: 'limited' }>, 'limit' | 'of' | 'retryAfterMs'>
  /** An unattended key was granted again. */
  'pawl:taken_over': GrantMessage & { readonly attempts: number }
  /** A phase is about to run, or to go on. */
  'pawl:phase_started': PhaseMessage
  /** The phase's rows and recovery point are durable. */
  'pawl:phase_committed': PhaseMessage & { readonly skipped: boolean }
  /** The phase's transaction met a conflict or lost its connection, and is retried. */
  'pawl:phase_retried': PhaseMessage & { readonly error: unknown; readonly attempt: number }
  /** The phase did not commit, and the key was given back. */
  'pawl:phase_failed': PhaseMessage & { readonly error: unknown; readonly reason: RetryReason }
  /**
   * The phase failed to commit yet again, and its key is older than ten minutes. The key is retried until it is stuck, in
   * `stuckInMs`: should somebody look now?
   */
  'pawl:retried_for_long': PhaseMessage & {
    readonly error: unknown
    readonly reason: RetryReason
    readonly sinceMs: number
    readonly stuckInMs: number
  }
  /**
   * It is not known, and never will be, whether a call was executed; its phase's `whenUnknown` has gone on without it.
   * `error` is what the call threw; null where it was interrupted by a crash.
   */
  'pawl:outcome_unknown': PhaseMessage & { readonly error: unknown }
  /** A COMMIT got no answer; the fence was raised to learn what became of it. */
  'pawl:commit_settled': PhaseMessage & { readonly committed: boolean }
  /** Another holder took the key over from this execution, which wrote nothing after that. */
  'pawl:fenced_off': PhaseMessage
  /** A response was stored. */
  'pawl:finished': GrantMessage & { readonly status: number }
  /** From now on, no automatic step may touch the key. Announced once. */
  'pawl:stuck': KeyMessage & {
    readonly keyId: string
    readonly recoveryPoint: string
    readonly reason: StuckReason
    readonly lastError: string | null
  }
  /** The key runs under a version or definition that is not registered here. */
  'pawl:refused': KeyMessage & { readonly detail: string }
  /** The store could not answer. */
  'pawl:unavailable': { readonly error: unknown }
  /**
   * Requests no longer wait for a database that could not be reached (`opened`), one of them is let through to look
   * (`half_open`), or the database has answered (`closed`). `refused`: how many requests were answered without asking it since it
   * opened. `error`: why it could not be reached the last time.
   */
  'pawl:breaker': {
    readonly state: 'opened' | 'half_open' | 'closed'
    readonly failures: number
    readonly refused: number
    readonly openMs: number
    readonly error: unknown
  }
  /** A round of a background service ended. `counts` is what its `runOnce` returns. */
  'pawl:round': { readonly service: ServiceName; readonly counts: Readonly<Record<string, number>> }
  /** A round of a background service failed, and will be tried again. */
  'pawl:round_failed': { readonly service: ServiceName; readonly error: unknown; readonly failures: number }
  /** A staged job was not delivered, and will be tried again. */
  'pawl:job_failed': {
    readonly jobId: string
    readonly name: string
    readonly keyId: string
    readonly attempts: number
    readonly error: unknown
  }
  /** A staged job was given up: a person decides. */
  'pawl:job_dead': {
    readonly jobId: string
    readonly name: string
    readonly keyId: string
    readonly attempts: number
    readonly lastError: string
  }
  /** Expired keys that could not be deleted, because rows of the application refer to them. */
  'pawl:reap_held': { readonly keyIds: readonly string[]; readonly constraint: string | null }
  /** Something a developer should look at. No request's outcome depends on it. */
  'pawl:warning': { readonly message: string; readonly error: unknown }
}

/** A background service. */
export type ServiceName = 'completer' | 'relay' | 'reaper'

/** The name of a channel, such as `pawl:stuck`. */
export type PawlChannel = keyof PawlMessages

type Listener = (message: unknown, name: string | symbol) => unknown

const names = {
  'pawl:reserved': true,
  'pawl:enqueued': true,
  'pawl:replayed': true,
  'pawl:in_flight': true,
  'pawl:mismatch': true,
  'pawl:expired': true,
  'pawl:limited': true,
  'pawl:taken_over': true,
  'pawl:phase_started': true,
  'pawl:phase_committed': true,
  'pawl:phase_retried': true,
  'pawl:phase_failed': true,
  'pawl:retried_for_long': true,
  'pawl:outcome_unknown': true,
  'pawl:commit_settled': true,
  'pawl:fenced_off': true,
  'pawl:finished': true,
  'pawl:stuck': true,
  'pawl:refused': true,
  'pawl:unavailable': true,
  'pawl:breaker': true,
  'pawl:round': true,
  'pawl:round_failed': true,
  'pawl:job_failed': true,
  'pawl:job_dead': true,
  'pawl:reap_held': true,
  'pawl:warning': true,
} satisfies Record<PawlChannel, true>

/** The names of all channels. */
export const pawlChannels = Object.keys(names) as readonly PawlChannel[]

const GUARDED: unique symbol = Symbol.for('pawl.guarded') as never
type GuardedChannel = ReturnType<typeof channel> & { readonly [GUARDED]?: boolean }

const channels = Object.fromEntries(pawlChannels.map((name) => [name, guardedChannel(name)])) as Record<
  PawlChannel,
  ReturnType<typeof channel>
>

/**
 * Announces a message. It is built only if somebody listens.
 */
export function announce<Name extends PawlChannel>(name: Name, message: () => PawlMessages[Name]): void {
  const target = channels[name]
  if (target.hasSubscribers) target.publish(message())
}

/**
 * Listens to a channel with its type; returns a function that stops listening. `diagnostics_channel.subscribe` works as
 * well.
 *
 * @example
 * const stop = subscribe('pawl:stuck', ({ keyId, reason }) => log.error({ keyId, reason }, 'a request needs a person'))
 */
export function subscribe<Name extends PawlChannel>(
  name: Name,
  listener: (message: PawlMessages[Name]) => void,
): () => void {
  if (!pawlChannels.includes(name)) {
    throw new PawlError(
      'PAWL_INVALID_OPTION',
      `subscribe: there is no channel '${name}'. The channels are ${pawlChannels.join(', ')}.`,
    )
  }
  const typed = listener as unknown as Listener
  channels[name].subscribe(typed)
  return () => channels[name].unsubscribe(typed)
}

/**
 * Node ends the process when a subscriber of a channel throws. A logger's bug must not end a payment, so the channels
 * of Pawl wrap every subscriber they are given, through whichever function it comes.
 */
function guardedChannel(name: PawlChannel): ReturnType<typeof channel> {
  const target = channel(name) as GuardedChannel
  // Another copy of this module in the process has already guarded it.
  if (target[GUARDED] === true) return target
  const guards = new WeakMap<Listener, Listener>()
  const warn = (error: unknown): void => {
    try {
      process.emitWarning(`A listener of ${name} threw: ${safeError(error).message}`)
    } catch {
      // If somebody replaced the process's own function, they learn nothing, which is better than losing the process.
    }
  }
  const guardOf = (listener: Listener): Listener => {
    // If it is not a function, Node refuses it.
    const known = typeof listener === 'function' ? guards.get(listener) : listener
    if (known !== undefined) return known
    const guard: Listener = (message, from) => {
      try {
        const returned: unknown = listener(message, from)
        if (returned instanceof Promise) returned.catch(warn)
      } catch (error) {
        warn(error)
      }
    }
    guards.set(listener, guard)
    // A channel's first subscription passes through here a second time, as Node makes the channel active.
    guards.set(guard, guard)
    return guard
  }
  // The prototype is looked up at each call: Node swaps it when the first listener arrives and when the last one leaves.
  const inherited = () => Object.getPrototypeOf(target) as typeof target
  Object.defineProperties(target, {
    [GUARDED]: { value: true },
    subscribe: { value: (listener: Listener) => inherited().subscribe.call(target, guardOf(listener)) },
    unsubscribe: { value: (listener: Listener) => inherited().unsubscribe.call(target, guardOf(listener)) },
  })
  return target
}
