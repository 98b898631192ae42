import { STATUS_CODES } from 'node:http'
import type { JsonObject } from '@pawl/core'
import { type Problem, type ProblemCode, type ProblemKind, problems } from './problems.js'

/** How answers look on the wire. */
export interface Profile {
  /** Set to `true` on a replay. */
  readonly replayedHeader: string
  readonly contentType: string
  /** Whether every answer names the key it belongs to. */
  readonly echoesKey: boolean
  /** Tells SDKs that look for it whether to send the request again; null where there is no such header. */
  readonly shouldRetryHeader: string | null
  statusOf(code: ProblemCode): number
  /** @param typeUrl where the problem is explained; null where no such address was given */
  bodyOf(problem: Problem, typeUrl: string | null): JsonObject
}

/** The IETF draft, with problem details as in RFC 9457. */
const ietf: Profile = {
  replayedHeader: 'idempotency-replayed',
  contentType: 'application/problem+json',
  echoesKey: false,
  shouldRetryHeader: null,
  statusOf: (code) => problems[code].status,
  bodyOf(problem, typeUrl) {
    const { title, status, detail } = kindOf(problem)
    return {
      // Without an address, `code` says which problem it is. The title should then be that of the status (RFC 9457,
      // section 4.2.1).
      type: typeUrl ?? 'about:blank',
      title: typeUrl === null ? (STATUS_CODES[status] ?? title) : title,
      status,
      detail: problem.detail ?? detail,
      code: problem.code,
      instance: problem.keyId === undefined ? undefined : `urn:uuid:${problem.keyId}`,
      errors: problem.errors?.map(({ detail: wrong, path }) => ({ detail: wrong, path })),
    }
  },
}

/** What Stripe's API answers, so that its SDKs and code written for them understand it. */
const stripe: Profile = {
  replayedHeader: 'idempotent-replayed',
  contentType: 'application/json; charset=utf-8',
  echoesKey: true,
  shouldRetryHeader: 'stripe-should-retry',
  statusOf: (code) => (code === 'idempotency_key_reused' ? 400 : problems[code].status),
  bodyOf(problem, typeUrl) {
    const [wrong] = problem.errors ?? []
    const detail = problem.detail ?? kindOf(problem).detail
    return {
      error: {
        type: stripeType(problem.code),
        code: problem.code === 'request_in_progress' ? 'idempotency_key_in_use' : problem.code,
        message: wrong === undefined ? detail : `${detail} ${wrong.path}: ${wrong.detail}`,
        doc_url: typeUrl ?? undefined,
        param: wrong?.path,
        request_id: problem.keyId,
      },
    }
  },
}

export const profiles = { ietf, stripe } as const

/** The conventions that answers follow. */
export type ProfileName = keyof typeof profiles

function kindOf(problem: Problem): ProblemKind {
  return problems[problem.code]
}

function stripeType(code: ProblemCode): string {
  if (code === 'idempotency_key_reused' || code === 'request_in_progress') return 'idempotency_error'
  return problems[code].status >= 500 ? 'api_error' : 'invalid_request_error'
}
