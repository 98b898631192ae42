import type { ReachedLimit } from './rate-limit-fields.js'

/** What a client can be told, other than the pipeline's own response. */
export interface ProblemKind {
  /** The answer's status in the IETF profile. */
  readonly status: number
  readonly title: string
  readonly detail: string
  /** Whether the same request with the same key may succeed later. */
  readonly retry: boolean
}

/** Every problem by its stable `code`. `docs/http.md` has a heading for each; a test compares. */
export const problems = {
  idempotency_key_missing: {
    status: 400,
    title: 'An idempotency key is required',
    detail: 'Send the header idempotency-key with a key of your own, and the same one with every retry.',
    retry: false,
  },
  idempotency_key_invalid: {
    status: 400,
    title: 'The idempotency key is not usable',
    detail: 'A key has 1 to 255 printable ASCII characters, bare or as a quoted string.',
    retry: false,
  },
  idempotency_key_repeated: {
    status: 400,
    title: 'There is more than one idempotency key',
    detail: 'Send the header once, with one key.',
    retry: false,
  },
  idempotency_key_unsuitable: {
    status: 400,
    title: 'The idempotency key should not be stored',
    detail: 'The key looks like personal data, or is too short. Send a random one, such as a UUID.',
    retry: false,
  },
  sent_at_missing: {
    status: 400,
    title: 'The time of the first attempt is required',
    detail:
      'Send the header idempotency-sent-at with the time of the first attempt, and the same one with every retry.',
    retry: false,
  },
  sent_at_invalid: {
    status: 400,
    title: 'The time of the first attempt cannot be read',
    detail: 'It is one HTTP date, or one date of RFC 9651.',
    retry: false,
  },
  sent_at_too_old: {
    status: 400,
    title: 'The request was first sent too long ago',
    detail: 'Nothing was done now. Find out what became of the request before you send it as a new one.',
    retry: false,
  },
  sent_at_in_future: {
    status: 400,
    title: 'The time of the first attempt is in the future',
    detail: 'The clock of the client is ahead of the clock here.',
    retry: false,
  },
  idempotency_key_reused: {
    status: 422,
    title: 'The idempotency key belongs to another request',
    detail:
      'This key was used for another request: the method, path, query or content differs. Use a new key for a new request.',
    retry: false,
  },
  key_expired: {
    status: 410,
    title: 'The idempotency key has expired',
    detail:
      'A request with this key was carried out, and its response is no longer kept. Nothing was done now. Look up what became of it before you send it under a new key.',
    retry: false,
  },
  request_in_progress: {
    status: 409,
    title: 'The request is being processed',
    detail: 'A request with this key is being processed already. Send it again later to get its response.',
    retry: true,
  },
  invalid_input: {
    status: 400,
    title: 'The request is not valid',
    detail: 'The content of this request is not what the operation accepts.',
    retry: false,
  },
  request_not_found: {
    status: 404,
    title: 'There is no such request',
    detail: 'No request of yours has this id. It may have expired: finished requests are not kept for ever.',
    retry: false,
  },
  request_too_large: {
    status: 413,
    title: 'The request is too large',
    detail: 'The content of this request is larger than the operation accepts.',
    retry: false,
  },
  too_many_requests: {
    status: 429,
    title: 'There are too many requests',
    detail:
      'You have reached a limit on new requests. Nothing was done. Send the request again later with the same key.',
    retry: true,
  },
  temporarily_unavailable: {
    status: 503,
    title: 'The request could not be completed now',
    detail:
      'What was done so far is kept. Send the request again with the same key: it continues from there.',
    retry: true,
  },
  unexpected_error: {
    status: 500,
    title: 'Something unexpected happened',
    detail:
      'What was done so far is kept. Send the request again with the same key: it continues from there.',
    retry: true,
  },
  internal_error: {
    status: 500,
    title: 'The server is not set up correctly',
    detail: 'Nothing was done. The people who run this service have to look at it.',
    retry: false,
  },
  store_unavailable: {
    status: 503,
    title: 'The service is not available now',
    detail: 'Nothing was done. Send the request again later with the same key.',
    retry: true,
  },
  version_not_available: {
    status: 503,
    title: 'The request cannot be continued here now',
    detail: 'It began under another version of this service. Send it again later with the same key.',
    retry: true,
  },
  request_stuck: {
    status: 500,
    title: 'The request needs a person',
    detail:
      'It could not be completed automatically. Do not send it under another key: ask the people who run this service.',
    retry: false,
  },
} as const satisfies Record<string, ProblemKind>

/** The `code` of a problem. Stable: clients may switch over it. */
export type ProblemCode = keyof typeof problems

/** One answer that is not the pipeline's. */
export interface Problem {
  readonly code: ProblemCode
  /** Default: what the table says. */
  readonly detail?: string
  /** When to come back, where that is known. */
  readonly retryAfterMs?: number
  /** The limit that was reached. */
  readonly limit?: ReachedLimit
  /** The request's id here, for the client to quote when asking a person. */
  readonly keyId?: string
  /** What is wrong with the content, and where. */
  readonly errors?: readonly { readonly detail: string; readonly path: string }[]
}
