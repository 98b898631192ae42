import type { TracingSlot } from '../announce/tracing.js'
import type { SessionPool } from '../driver/session-pool.js'
import type { Registry } from '../pipeline/registry.js'
import type { ResolvedSettings } from '../pipeline/resolved-settings.js'
import type { Tables } from '../storage/tables.js'
import type { Breaker } from './breaker.js'
import type { KeyPolicy } from './key-policy.js'
import type { CachedKeys } from './cached-keys.js'
import type { LimitsOfScopes } from './scope-limits.js'
import type { Replica } from './replica.js'
import type { FingerprintSecrets } from './request-fingerprint.js'
import type { ReplayLikelihood } from './replay-likelihood.js'

/** The parts of an engine that are needed to get from a request to a grant. */
export interface RequestContext {
  readonly sessions: SessionPool
  readonly tables: Tables
  readonly registry: Registry
  readonly settings: ResolvedSettings
  /** Whether a key that was deleted after it had an effect is a new request. Otherwise it is refused. */
  readonly runsAgain: boolean
  readonly keyPolicy: KeyPolicy
  /** What requests are told apart with. */
  readonly fingerprintSecrets: FingerprintSecrets
  /** What scopes may have. */
  readonly limits: LimitsOfScopes
  readonly replayLikelihood: ReplayLikelihood
  /** Whether to ask the database at all. */
  readonly breaker: Breaker
  /** Where finished keys are looked for first; null unless the user asks for it. */
  readonly replica: Replica | null
  /** Where keys are looked for even before that; null unless the user gives a cache. */
  readonly cache: CachedKeys | null
  /** What fresh keys get their `traceparent` from. */
  readonly tracing: TracingSlot
}
