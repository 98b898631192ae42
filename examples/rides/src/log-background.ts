import { safeError, subscribe } from '@pawl/core'
import type { FastifyBaseLogger } from 'fastify'

/** Logs what happens outside of requests, since no client would get an answer. */
export function logBackground(log: FastifyBaseLogger): void {
  subscribe('pawl:round', ({ service, counts }) => {
    if (Object.values(counts).some((count) => count > 0)) log.info({ service, counts }, 'background round')
  })
  subscribe('pawl:round_failed', ({ service, error, failures }) =>
    log.error({ service, err: safeError(error), failures }, 'a background round failed, and is tried again'),
  )
  subscribe('pawl:stuck', ({ keyId, recoveryPoint, reason, lastError }) =>
    log.error({ keyId, recoveryPoint, reason, lastError }, 'a request is stuck: a person has to decide'),
  )
  subscribe('pawl:retried_for_long', ({ keyId, phase, error, sinceMs, stuckInMs }) =>
    log.error({ keyId, phase, err: error, sinceMs, stuckInMs }, 'a request is retried again and again'),
  )
  subscribe('pawl:reap_held', ({ keyIds, constraint }) =>
    log.warn({ keyIds, constraint }, 'expired keys cannot be deleted: other rows refer to them'),
  )
  subscribe('pawl:warning', ({ message, error }) =>
    log.warn(error === null ? {} : { err: safeError(error) }, message),
  )
}
