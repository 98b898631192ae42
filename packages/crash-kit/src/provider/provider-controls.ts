import type { ProviderRequest } from '../history.js'
import type { ArmedFault, ArmOptions } from './armed-faults.js'
import type { ProviderFailure } from './books.js'
import type { ProviderFault } from './provider-fault.js'
import type { Attribution, ReceivedRequest } from './received-request.js'

/** Hears of every request as soon as all of it is here, before it is executed and before it meets a fault. */
export type RequestListener = (request: ReceivedRequest, from: RequestOrigin) => Attribution | null

/** Where a request comes from. */
interface RequestOrigin {
  /** The client's port: that of one socket in this process, or in another. Null where the client is gone already. */
  readonly clientPort: number | null
}

/** What the kit does with a fake provider. */
export interface ProviderControls {
  /** The next request that changes something meets this fault; with `on: 'any'`, the next one of all. */
  arm(fault: ProviderFault, options?: ArmOptions): ArmedFault
  /** Lets all go that are held. */
  letGo(): void
  /** Resolves when this many requests have arrived since the last reset. */
  arrived(count: number): Promise<void>
  /** In place of the listener before. Gives what takes it away again. */
  onRequest(listener: RequestListener): () => void
  /** All that arrived since the last reset, in that order, as the oracle reads it. */
  history(): ProviderRequest[]
  /** Mistakes in the user's functions since the last reset. */
  failures(): readonly ProviderFailure[]
  /**
   * New books: requests, effects, answers, armed faults and what is held are forgotten, and requests that still wait for
   * an answer get 400. What is under way may end, and is recorded nowhere.
   */
  reset(): void
}
