export { fastifyPawl as default, fastifyPawl } from './plugin.js'
export type { AuditedRoute } from './audit.js'
export type { RegisteredDatabase } from './augmentation.js'
export type { ChooseFingerprint, SentRequest } from './fingerprint-request.js'
export type { PawlRequest } from './pawl-request.js'
export type {
  FastifyPawlOptions,
  IdempotencyExemption,
  IdempotencyOptions,
  KeyScope,
  OnConflict,
  RouteIdempotency,
} from './options.js'
export { problems } from './problems.js'
export type { ProblemCode, ProblemKind } from './problems.js'
export type { ProfileName } from './profile.js'
export type { AskedStatus, AuthorizeStatus, RespondAsync, RespondAsyncOptions } from './respond-async.js'
export type { SentAtOptions } from './sent-at.js'
