export { subscribe, pawlChannels } from './announce/announce.js'
export { logTo } from './announce/log-to.js'
export type { Logger, LogOptions } from './announce/log-to.js'
export { safeError } from './safe-error.js'
export type {
  GrantMessage,
  KeyMessage,
  PawlChannel,
  PawlMessages,
  PhaseMessage,
  ServiceName,
} from './announce/announce.js'
export { aesGcm } from './aes-gcm.js'
export type { AesGcmOptions } from './aes-gcm.js'
export { createBackground } from './background/create-background.js'
export type { Background, BackgroundCounts, BackgroundOptions } from './background/create-background.js'
export type { CompleterCounts, CompleterOptions } from './background/completer.js'
export type { ReaperCounts, ReaperOptions } from './background/reaper.js'
export type { RelayCounts } from './background/job-results.js'
export type { RelayOptions } from './background/relay-options.js'
export type { Service, StopOptions } from './background/service.js'
export { deliverEach } from './background/sink.js'
export type { Delivery, JobToDeliver, Sink } from './background/sink.js'
export type { Erasure, ErasureReport, Kept, KeptBecause } from './erase/erasure.js'
export { errorCodes, InvalidInputError, LimitedError, PawlError, StoreAwayError } from './errors.js'
export type { InputIssue, PawlErrorCode } from './errors.js'
export type {
  Limits,
  LimitsOption,
  PipelineLimits,
  PipelineLimitsOption,
  RateLimit,
} from './pipeline/limits-option.js'
export type { Caps } from './run/caps.js'
export type { KeyAction, KeyPolicyOptions } from './request/key-policy.js'
export { createOperator } from './operate/create-operator.js'
export type { Because } from './because.js'
export type {
  Intervention,
  InterventionView,
  KeyId,
  KeyName,
  KeyReference,
  SteerOptions,
} from './engine/intervention.js'
export type {
  DuplicatesWindow,
  Findings,
  InterventionFilter,
  InterventionPage,
  RecordedIntervention,
  SearchHit,
  ScopeDuplicates,
} from './operate/audit.js'
export type { Flow, PipelineFlow, PointFlow } from './operate/flow.js'
export type { NextMove } from './operate/next-move.js'
export type { Reading, ReadingOptions, TableSize, UnfinishedAt } from './operate/reading.js'
export type { KeyPage, KeySummary } from './operate/page-keys.js'
export type { RecordedPhase, RecordedPipeline } from './pipeline/recorded-pipeline.js'
export type {
  BoundedCount,
  CallVerdict,
  DeadJobs,
  EffectView,
  Finding,
  ForgetOptions,
  JobView,
  KeyFilter,
  KeyReport,
  Operator,
  OperatorOptions,
  OperatorResponse,
  StatusReport,
  UnfinishedGroup,
} from './operate/operator.js'
export type {
  Difference,
  Differs,
  ProviderRecord,
  ReconcileReport,
  ReconcileWindow,
} from './operate/compare-effects.js'
export { reconcile } from './operate/reconcile.js'
export type { ReconcileOptions } from './operate/reconcile.js'
export { pawl } from './pawl.js'
export type { Pawl } from './pawl.js'
export { respond, respondBytes, retryLater } from './pipeline/directive.js'
export type {
  Directive,
  Respond,
  RespondOptions,
  RetryLater,
  RetryLaterOptions,
  StoredResponse,
} from './pipeline/directive.js'
export type { DefinePipeline, PipelineBuilder, PipelineOptions } from './pipeline/define-pipeline.js'
export type { PhaseDescription, PipelineDescription } from './pipeline/describe-pipeline.js'
export type { Jsonable, JsonObject, JsonValue } from './pipeline/json-value.js'
export type { EnqueueOutcome, Outcome, ResumeOutcome, RetryReason, StuckReason } from './pipeline/outcome.js'
export { absent, found } from './pipeline/phase.js'
export type {
  Absent,
  CallContext,
  Found,
  Guarantee,
  PhaseContext,
  Stage,
  TransactionContext,
  Write,
  Writing,
} from './pipeline/phase.js'
export type { AnyPipeline, Pipeline, UpgradeFrom } from './pipeline/pipeline.js'
export type { IsolationLevel, PhaseSettings, PipelineSettings, Wipe } from './pipeline/settings.js'
export type { BoundQuery } from './query/bound-query.js'
export type { DefinedQuery, DefineQuery } from './query/define-query.js'
export type { Given, GivenValue } from './query/given.js'
export type { FingerprintSecret, ProtectedPlace, Protection, SealedValue } from './protection.js'
export type { Register, RegisteredDatabase } from './register.js'
export { createEngine } from './engine/create-engine.js'
export type { Engine } from './engine/engine.js'
export type { ReplayCache } from './request/replay-cache.js'
export type { ExecuteRequest } from './request/execute-request.js'
export type { EngineOptions } from './engine/engine-options.js'
export type { BreakerOptions } from './request/breaker.js'
export type { JobToStage, Stager } from './run/stager.js'
export type { KeyView } from './engine/key-view.js'
export type { ForeignRequest, StrictOptions } from './run/strict-mode.js'
export { migrate, migrationSql } from './storage/schema/migrate.js'
export type { Layout } from './storage/schema/layout.js'
export type { MigrateOptions } from './storage/schema/migrate.js'
