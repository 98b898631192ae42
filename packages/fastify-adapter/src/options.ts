import type { Engine, PipelineSettings } from '@pawl/core'
import type { FastifyRequest } from 'fastify'
import type { ChooseFingerprint } from './fingerprint-request.js'
import type { ProfileName } from './profile.js'
import type { RespondAsync, RespondAsyncOptions } from './respond-async.js'
import type { SentAtOptions } from './sent-at.js'

/** What happens to a request whose key is being processed. */
export type OnConflict =
  /** 409 at once. */
  | 'reject'
  /** It is held until the first request has finished, but at most this long; then it gets that response, or 409. */
  | { readonly waitMs: number }

/** Where a key has to be unique. */
export type KeyScope =
  /** Within the scope, as at Stripe: the same key at another endpoint is a mistake by the client. */
  | 'account'
  /** Within the scope and the route: the same key at another route is another request. */
  | 'route'

/** What a route can set; the plugin's options are its defaults. */
export interface SharedOptions {
  /** Where a key has to be unique. Default `account`. */
  readonly keyScope?: KeyScope
  /** What happens to a request whose key is being processed. Default `reject`: 409. */
  readonly onConflict?: OnConflict
  /**
   * A header that says when the client first sent the request: a request that is too old, or from the future, is refused
   * before its key is looked up. Default `false`: nothing is read.
   */
  readonly sentAt?: SentAtOptions | false
}

/** How a route is marked, when `true` does not say enough. */
export interface IdempotencyOptions<Body = unknown, Query = unknown> extends SharedOptions {
  /**
   * Whether a request without a key is refused. Default: on POST and PATCH. With `false`, a request without a key runs
   * under a generated one: it survives a crash, but a retry of the client is a new request and a second effect.
   */
  readonly required?: boolean
  /**
   * Which parts of the body and query make two requests the same. Default: all of them. Method and path always count.
   *
   * @example
   * fingerprint: ({ body: { sent_at, ...rest } }) => rest // a retry has another time stamp
   */
  readonly fingerprint?: ChooseFingerprint<Body, Query>
  /**
   * Turns the route's handler into one transaction: it works with `request.tx`, and what it returns is stored with its
   * rows and replayed from then on. `true`, or the settings of that transaction.
   *
   * @example
   * app.post('/notes', { schema, idempotency: { atomic: true } }, async (request, reply) => {
   *   const note = await request.tx.insertInto('notes').values(request.body).returning('id').executeTakeFirstOrThrow()
   *   reply.code(201)
   *   return note
   * })
   */
  readonly atomic?: boolean | PipelineSettings
  /**
   * Which requests get a 202 and the address of their status, while the completer runs them. Default `preferred` where
   * the plugin has `respondAsync`, else `never`. Not for atomic handlers.
   */
  readonly respondAsync?: RespondAsync
}

/** Why a route that changes state takes no key. */
export interface IdempotencyExemption {
  /** The reason, for whoever reads the audit. */
  readonly exempt: string
}

/**
 * The `idempotency` option of a route: `true` marks it; `false`, or `{ exempt: 'why' }`, says that it needs no key.
 *
 * @example
 * app.post('/rides', { idempotency: true }, (request) => request.pawl.run(createRide, request.body))
 */
export type RouteIdempotency<Body = unknown, Query = unknown> =
  | boolean
  | IdempotencyOptions<Body, Query>
  | IdempotencyExemption

/**
 * What the plugin is registered with. Only `engine` and `scope` are needed.
 *
 * @example
 * await app.register(fastifyPawl, { engine, scope: (request) => request.user?.id })
 */
export interface FastifyPawlOptions extends SharedOptions {
  /** Runs the pipelines. It is closed with the app. */
  readonly engine: Engine<any>
  /**
   * Who owns the key: the authenticated tenant, user or account. Called after all hooks, so after authentication; never
   * take it from the body. If it returns nothing, the request is refused.
   */
  readonly scope: (request: FastifyRequest) => string | null | undefined | Promise<string | null | undefined>
  /**
   * What else only the sender of a request has, such as the id of its session, of its token or of its client certificate. Under a
   * key that was first sent with another one, a request is a mismatch, and its status is not found. Called where `scope` is; if it
   * returns nothing, the request is refused. The engine needs `protect` or `hashSecret`. Default: keys are not bound.
   *
   * @example
   * bindTo: (request) => request.session.sessionId
   */
  readonly bindTo?: (
    request: FastifyRequest,
  ) => string | null | undefined | Promise<string | null | undefined>
  /** Name of the header that carries the key. Default `idempotency-key`. */
  readonly header?: string
  /** The conventions that answers follow. Default `ietf`: problem details as in RFC 9457. */
  readonly profile?: ProfileName
  /**
   * Response headers that are stored and replayed although they hold only for the moment, such as `retry-after`. All
   * others that an operation sets are stored anyway, except cookies and connection headers: docs/http.md has the list.
   */
  readonly storedHeaders?: readonly string[]
  /**
   * The address of a page of yours where clients can read about problems: the `type` of a problem is then this address
   * with the problem's code as the fragment. Default: none, and the `type` is `about:blank`.
   */
  readonly problemBaseUrl?: string
  /** What to do about a POST or PATCH that takes no key and is not exempt, once the app is ready. Default `warn`. */
  readonly enforce?: 'off' | 'warn' | 'error'
  /**
   * Fails a marked route whose handler answers without running its pipeline; otherwise that is only logged. Default: on
   * unless NODE_ENV is `production`.
   */
  readonly strict?: boolean
  /** How long requests may continue once the app closes. Default 10 s, as for `engine.close`. */
  readonly closeTimeoutMs?: number
  /**
   * How many requests of one scope may wait at a time, with `onConflict: { waitMs }` or `Prefer: wait`. The next one is
   * answered at once. Default 100.
   */
  readonly waitersPerScope?: number
  /**
   * Lets clients get a 202 at once with `Prefer: respond-async`, and registers the resource that reports what became of
   * their requests. These run in the completer of `createBackground`, here or in another process. Default: off.
   */
  readonly respondAsync?: boolean | RespondAsyncOptions
}
