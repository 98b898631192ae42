import type { Outcome } from '@pawl/core'
import type { FastifyBaseLogger } from 'fastify'

/** One line per request, at the level of whoever has to act on it. The key is hashed: logs travel. */
export function logOutcome(
  log: FastifyBaseLogger,
  keyHash: string,
  pipeline: string,
  outcome: Outcome,
): void {
  const common = { outcome: outcome.type, keyHash, pipeline }
  const line = (more: object = {}) => ({ idempotency: { ...common, ...more } })
  switch (outcome.type) {
    case 'completed':
    case 'replayed': {
      const { keyId, response } = outcome
      log.info(line({ keyId, status: response.status }), `idempotent request ${outcome.type}`)
      return
    }
    case 'in_flight':
      log.info(line({ leaseLeftMs: outcome.leaseLeftMs }), 'idempotent request is being processed elsewhere')
      return
    case 'mismatch':
      log.warn(line({ differs: outcome.differs }), 'idempotency key of another request')
      return
    case 'retry_later': {
      const { keyId, reason, recoveryPoint, error } = outcome
      const level = reason === 'unknown_error' ? 'error' : 'warn'
      log[level]({ ...line({ keyId, reason, recoveryPoint }), err: error }, 'idempotent request interrupted')
      return
    }
    case 'stuck': {
      const { keyId, reason, recoveryPoint, lastError } = outcome
      log.error(
        line({ keyId, reason, recoveryPoint, lastError }),
        'idempotent request is stuck: a person decides',
      )
      return
    }
    case 'refused': {
      const { version, detail } = outcome
      log.error(line({ version, detail }), 'idempotent request of a version that is not registered here')
      return
    }
    case 'unavailable':
      log.error({ ...line(), err: outcome.error }, 'the idempotency store is not available')
  }
}
