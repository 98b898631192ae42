import type { NameHasher } from '../announce/name-hasher.js'
import type { TracingSlot } from '../announce/tracing.js'
import type { WakeSignal } from '../wake-signal.js'
import type { KyselyFactory } from '../driver/kysely-driver.js'
import type { Probe } from '../driver/probe.js'
import type { SessionPool } from '../driver/session-pool.js'
import type { PipelineDefinition } from '../pipeline/pipeline.js'
import type { ResolvedSettings } from '../pipeline/resolved-settings.js'
import type { Tables } from '../storage/tables.js'
import type { RunningCall } from './call-provider.js'
import type { Caps } from './caps.js'
import type { Redact } from '../redact-more.js'
import type { LeaseKeeper } from './lease-keeper.js'
import type { QuietCalls } from './quiet-calls.js'
import type { Stager } from './stager.js'
import type { StrictMode } from './strict-mode.js'

/** The parts of an engine that are needed to get from a grant to a response. */
export interface RunContext {
  readonly sessions: SessionPool
  readonly tables: Tables
  readonly settings: ResolvedSettings
  /** Whether this engine counts what keys take. */
  readonly limits: { areOn(definition: PipelineDefinition): boolean; readonly areOnAnywhere: boolean }
  /** Whether a key that was deleted may run again, whatever its calls did. */
  readonly runsAgain: boolean
  readonly caps: Caps
  /** Keeps the provider keys of two applications on one provider account apart. */
  readonly namespace: string
  /** Names keys and scopes in messages. */
  readonly names: NameHasher
  /** What the application takes out of recorded errors; null for nothing more than Pawl does. */
  readonly redact: Redact | null
  readonly probe: Probe | null
  /** What goes around requests and phases. */
  readonly tracing: TracingSlot
  readonly kysely: KyselyFactory
  readonly keeper: LeaseKeeper
  readonly strict: StrictMode
  readonly quietCalls: QuietCalls
  /** Whether the server keeps the framework's statements prepared. */
  readonly preparedStatements: boolean
  readonly stager: Stager<never> | null
  /** Wakes when jobs have been committed to `staged_jobs`. */
  readonly staged: WakeSignal
  /** Aborted when close() has waited long enough. */
  readonly stopping: AbortSignal
  /** The running calls, to be aborted along with it. They do not listen to it: adding a listener looks at all the others. */
  readonly calls: Set<RunningCall>
  /** Work that goes on after its execution has answered, such as a call that ignores its signal. */
  readonly afterwards: Set<Promise<void>>
}
