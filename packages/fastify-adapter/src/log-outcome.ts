import type { FastifyBaseLogger } from 'fastify'
import type { Answerable } from './answer.js'
import type { PluginSettings } from './plugin-settings.js'
import type { ProblemCode } from './problems.js'

/** What the line says about the request. The key is hashed: logs travel. */
export interface LoggedRequest {
  readonly keyHash: string
  readonly pipeline: string
  /** The client sent no key. */
  readonly generatedKey: boolean
}

/** What the line says about a request whose status was asked for. */
export interface LoggedStatus {
  readonly asked: 'status'
  /** Not known where the store is away. */
  readonly keyHash?: string
  readonly pipeline?: string
}

/** One line per request, at the level of whoever has to act on it. */
export function logOutcome(
  { safeError }: Pick<PluginSettings, 'safeError'>,
  log: FastifyBaseLogger,
  request: LoggedRequest | LoggedStatus,
  outcome: Answerable,
): void {
  const line = (more: object = {}) => ({
    idempotency: Object.assign({ outcome: outcome.type }, request, more),
  })
  switch (outcome.type) {
    case 'completed':
    case 'replayed': {
      const { keyId, response } = outcome
      log.info(line({ keyId, status: response.status }), `idempotent request ${outcome.type}`)
      return
    }
    case 'enqueued': {
      const { keyId, fresh } = outcome
      const told = fresh ? 'enqueued' : 'is being processed in the background'
      log.info(line({ keyId, fresh }), `idempotent request ${told}`)
      return
    }
    case 'in_flight':
      log.info(line({ leaseLeftMs: outcome.leaseLeftMs }), 'idempotent request is being processed elsewhere')
      return
    case 'mismatch':
      log.warn(line({ differs: outcome.differs }), 'idempotency key belongs to another request')
      return
    case 'expired': {
      const { keyId, settledAt } = outcome
      log.warn(line({ keyId, settledAt }), 'idempotent request came back after its key had been deleted')
      return
    }
    case 'limited': {
      const { limit, of, retryAfterMs } = outcome
      log.warn(line({ limit, of, retryAfterMs }), 'idempotent request refused: its scope has reached a limit')
      return
    }
    case 'retry_later': {
      const { keyId, reason, recoveryPoint, error } = outcome
      const level = reason === 'unknown_error' ? 'error' : 'warn'
      // A provider that does not have the call yet, or a phase that asks for a retry, need not have thrown anything.
      const thrown = error == null ? {} : { err: safeError(error) }
      log[level]({ ...line({ keyId, reason, recoveryPoint }), ...thrown }, 'idempotent request interrupted')
      return
    }
    case 'stuck': {
      const { keyId, reason, recoveryPoint, lastError } = outcome
      log.error(
        line({ keyId, reason, recoveryPoint, lastError }),
        'idempotent request is stuck: a person has to decide',
      )
      return
    }
    case 'refused': {
      const { version, detail } = outcome
      log.error(
        line({ version, detail }),
        'idempotent request belongs to a version that is not registered here',
      )
      return
    }
    case 'unavailable':
      log.error({ ...line(), err: safeError(outcome.error) }, 'the idempotency store is not available')
  }
}

/** The handler of an atomic route threw. Fastify logs what it threw, together with the answer. */
export function logThrown(log: FastifyBaseLogger, request: LoggedRequest): void {
  log.info(
    { idempotency: { outcome: 'threw', ...request } },
    'idempotent request rolled back: its handler threw',
  )
}

/** A request that was answered before its key was looked up. */
export function logNotAccepted(log: FastifyBaseLogger, route: string, code: ProblemCode): void {
  log.info({ idempotency: { outcome: 'not_accepted', route, code } }, 'idempotent request not accepted')
}

/** A request that could not be passed to the engine: the client's mistake, or the developer's. */
export function logThrownByEngine(
  { safeError }: Pick<PluginSettings, 'safeError'>,
  log: FastifyBaseLogger,
  route: string,
  code: ProblemCode,
  error: unknown,
): void {
  const level = code === 'internal_error' ? 'error' : 'info'
  log[level](
    { idempotency: { outcome: 'not_accepted', route, code }, err: safeError(error) },
    'idempotent request not accepted',
  )
}

/** The likeliest mistake when a plain handler is turned into an atomic one. */
export function logUnusedTransaction(log: FastifyBaseLogger, route: string): void {
  log.warn(
    `The atomic handler of ${route} did not use request.tx: anything it wrote through another connection is not protected.`,
  )
}
