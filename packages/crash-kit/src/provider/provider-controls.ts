import type { ProviderRequest } from '../history.js'
import type { ArmedFault, ArmOptions } from './armed-faults.js'
import type { ProviderFailure } from './provider-state.js'
import type { ProviderFault } from './provider-fault.js'
import type { Attribution, ReceivedRequest } from './received-request.js'

/** Called for every request as soon as all of it is here, before it is executed and before it meets a fault. */
export type RequestListener = (request: ReceivedRequest, from: RequestOrigin) => Attribution | null

/** Where a request comes from. */
interface RequestOrigin {
  /** The port of the client's socket, in this process or another. Null if the client is already gone. */
  readonly clientPort: number | null
}

/** What the kit can do with a fake provider. */
export interface ProviderControls {
  /** The next request that changes something meets this fault; with `on: 'any'`, the next request of any kind. */
  arm(fault: ProviderFault, options?: ArmOptions): ArmedFault
  /** Lets all held requests go on. */
  letGo(): void
  /** Resolves when this many requests have arrived since the last reset. */
  arrived(count: number): Promise<void>
  /** Replaces the current listener. Returns a function that removes it again. */
  onRequest(listener: RequestListener): () => void
  /** Returns all requests since the last reset, in the order of arrival, as the oracle reads them. */
  history(): ProviderRequest[]
  /** Returns the mistakes in the user's functions since the last reset. */
  failures(): readonly ProviderFailure[]
  /** Forgets which keys it was sent, as a provider does after its window. The ledger and the requests stay. */
  forgetKeys(): void
  /**
   * Begins with an empty state: requests, effects, answers, armed and held faults are forgotten, and requests that still wait for
   * an answer get 400. What is under way may end, but is not recorded anywhere.
   */
  reset(): void
}
