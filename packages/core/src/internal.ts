/** For adapters and test kits of this project. Not covered by semantic versioning. */
import { installTracing } from './announce/guard-tracing.js'
import type { Tracing } from './announce/tracing.js'
import type { Probe } from './driver/probe.js'
import { contextOf } from './engine/engine-context.js'
import type { Engine, OwnKey } from './engine/engine.js'
import { RunningEngine } from './engine/running-engine.js'
import type { ExecuteRequest } from './request/execute-request.js'
import type { KeyLook } from './request/look-at-key.js'
import type { JsonValue } from './pipeline/json-value.js'
import type { EnqueueOutcome, Outcome } from './pipeline/outcome.js'
import { definitionOf, type Pipeline, type PipelineDefinition } from './pipeline/pipeline.js'
import type { EngineOptions } from './engine/engine-options.js'
import type { KeyView } from './engine/key-view.js'
import type { Suspicion } from './request/suspicions.js'

export {
  checkFunction,
  checkKnownOptions,
  checkOneOf,
  checkOptionalFunction,
  checkTimerMs,
  checkWholeNumber,
  invalidOption,
} from './check-option.js'
export type { OptionOwner } from './check-option.js'
export type {
  CallToTrace,
  GrantToTrace,
  PhaseEnd,
  PhaseToTrace,
  RequestToTrace,
  Tracing,
} from './announce/tracing.js'
export type { Position, Probe } from './driver/probe.js'
export type { KeyLook } from './request/look-at-key.js'
export { isUuid } from './is-uuid.js'
export type { Suspicion } from './request/suspicions.js'
export { fingerprintOf, OriginFingerprint } from './request/fingerprint.js'
export { providerKeyOf } from './run/provider-key.js'
export { MAX_INPUT_ISSUES, MAX_ISSUE_LENGTH, MAX_ISSUE_PATH_LENGTH, MAX_JSON_DEPTH } from './limits.js'
export { urlAuthorities } from './url-authorities.js'
export { FORBIDDEN_HEADERS, isTransientStatus } from './pipeline/directive.js'
export { isLargerThan } from './pipeline/is-larger-than.js'
export type { AnyPhase, Phase } from './pipeline/phase.js'
export type { PipelineDefinition } from './pipeline/pipeline.js'
export { checkPipelineSettings } from './pipeline/settings.js'
export { checkLayout } from './storage/schema/layout.js'
export { migrateAndWarn } from './storage/schema/migrate.js'
export { qualified } from './storage/qualified.js'
export { Opening, type RowName, type SealedColumn } from './storage/sealed-values.js'

export { shorten } from './shorten.js'

/**
 * An engine that calls `probe` at every position of the protocol, and can be stopped dead. It waits only where the probe
 * returns a promise: a probe that returns nothing changes neither what is sent nor in which turn of the event loop.
 *
 * `prepareAfterUses`: how often a phase's query has to be seen before it is kept prepared, where `preparedQueries` asks
 * for that. An engine that a test throws away after one request would otherwise never prepare any.
 */
export function createProbedEngine<DB>(
  options: EngineOptions<DB>,
  probe: Probe,
  { prepareAfterUses }: { readonly prepareAfterUses?: number } = {},
): Engine<DB> & { halt(): void } {
  return new RunningEngine<DB>(options, probe, prepareAfterUses)
}

/**
 * Puts a tracing around the work of an engine and of the services beside it. Returns a function that takes it away again. An engine
 * has at most one: a second one throws. Nothing that a tracing does or throws changes the outcome of a request.
 */
export function traceEngine<DB>(engine: Engine<DB>, tracing: Tracing): () => void {
  return installTracing(contextOf(engine, 'traceEngine').tracing, tracing)
}

/** A key's name in logs and messages: see `EngineOptions.hashSecret`. */
export function hashKeyName<DB>(engine: Engine<DB>, scope: string, key: string): string {
  return (engine as RunningEngine<DB>).hashKeyName(scope, key)
}

/** How long an engine keeps a finished key of a pipeline; null where it does not know the pipeline. */
export function retentionMsOf<DB, Input>(engine: Engine<DB>, pipeline: Pipeline<DB, Input>): number | null {
  return (engine as RunningEngine<DB>).retentionMsOf(pipeline)
}

/** A copy of an error for logs: `safeError`, with the engine's option `redact`. */
export function safeErrorOf<DB>(engine: Engine<DB>, error: unknown): Error {
  return (engine as RunningEngine<DB>).safeError(error)
}

/** Why the engine's `keyPolicy` refuses a client's key; null where it does not. */
export function judgeKey<DB>(engine: Engine<DB>, key: string): Suspicion | null {
  return (engine as RunningEngine<DB>).judgeKey(key)
}

/** Returns once an engine with a cache knows what it needs to use it, or cannot know. Otherwise its first request goes without. */
export function learnCache<DB>(engine: Engine<DB>): Promise<void> {
  return (engine as RunningEngine<DB>).learnCache()
}

/** Whether an engine has a secret that keys can be bound with. */
export function canBind<DB>(engine: Engine<DB>): boolean {
  return (engine as RunningEngine<DB>).canBind
}

/** What the engine knows about a pipeline. */
export function readDefinition<DB, Input>(pipeline: Pipeline<DB, Input>): PipelineDefinition {
  return pipeline[definitionOf]
}

/**
 * A pipeline with parts of its definition replaced, such as its functions. Rows do not notice unless its hash is
 * replaced.
 */
export function reviseDefinition<DB, Input>(
  pipeline: Pipeline<DB, Input>,
  revise: (definition: PipelineDefinition) => PipelineDefinition,
): Pipeline<DB, Input> {
  const definition = revise(pipeline[definitionOf])
  const { name, version, hash: definitionHash } = definition
  return { ...pipeline, name, version, definitionHash, [definitionOf]: definition }
}

/** What the pipeline itself says makes two requests the same; undefined where it says nothing. */
export function chosenFingerprint<DB, Input>(
  pipeline: Pipeline<DB, Input>,
  input: NoInfer<Input>,
): JsonValue | undefined {
  // If it is not a pipeline, `execute` refuses it.
  return (pipeline as Partial<Pipeline<DB, Input>> | undefined)?.[definitionOf]?.fingerprint?.(input as never)
}

/** Runs a pipeline that the engine does not know: see `RunningEngine.executeAtomic`. */
export function executeAtomic<DB, Input>(
  engine: Engine<DB>,
  pipeline: Pipeline<DB, Input>,
  request: ExecuteRequest<NoInfer<Input>>,
  found: FoundKey | null = null,
): Promise<Outcome> {
  return (engine as RunningEngine<DB>).executeAtomic(pipeline, request, found)
}

/** A key as `lookAtKey` has read it: what is in it may be told only by an engine, after the checks of each request. */
export type FoundKey = Extract<KeyLook, { type: 'answered' }>['row']

/** Looks how far a key has come, for all requests of a process that wait for it. Nothing is run, and nothing is written. */
export function lookAtKey<DB>(engine: Engine<DB>, scope: string, key: string): Promise<KeyLook> {
  return (engine as RunningEngine<DB>).lookAtKey(scope, key)
}

/** As `execute`. Where a key was found, the request is answered by it, if it is this request's and has an answer. */
export function executeFound<DB, Input>(
  engine: Engine<DB>,
  pipeline: Pipeline<DB, Input>,
  request: ExecuteRequest<NoInfer<Input>>,
  found: FoundKey | null,
): Promise<Outcome> {
  if (found === null) return engine.execute(pipeline, request)
  return (engine as RunningEngine<DB>).executeFound(pipeline, request, found)
}

/** The same for `enqueue`. */
export function enqueueFound<DB, Input>(
  engine: Engine<DB>,
  pipeline: Pipeline<DB, Input>,
  request: ExecuteRequest<NoInfer<Input>>,
  found: FoundKey | null,
): Promise<EnqueueOutcome> {
  if (found === null) return engine.enqueue(pipeline, request)
  return (engine as RunningEngine<DB>).enqueueFound(pipeline, request, found)
}

/** Checks such a pipeline before its first request. */
export function prepareAtomic<DB, Input>(engine: Engine<DB>, pipeline: Pipeline<DB, Input>): void {
  ;(engine as RunningEngine<DB>).prepareAtomic(pipeline)
}

/**
 * Reads a key by its id, for its owner. Returns null if there is none, if it belongs to another scope, or if its request
 * came in elsewhere (see `OriginFingerprint`). Input, state and trail of a finished key
 * are left out. It only reads.
 */
export function inspectOwn<DB>(engine: Engine<DB>, of: OwnKey): Promise<KeyView | null> {
  return (engine as RunningEngine<DB>).inspectOwn(of)
}
