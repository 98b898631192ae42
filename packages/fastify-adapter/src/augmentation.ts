import type { RegisteredDatabase } from '@pawl/core'
import type {
  ContextConfigDefault,
  FastifyBaseLogger,
  FastifySchema,
  FastifyTypeProvider,
  FastifyTypeProviderDefault,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerBase,
  RawServerDefault,
  RouteGenericInterface,
} from 'fastify'
import type { Transaction } from 'kysely'
import type { AuditedRoute } from './audit.js'
import type { HandledRequest } from './handled-request.js'
import type { RouteIdempotency } from './options.js'
import type { PawlRequest } from './pawl-request.js'

export type { RegisteredDatabase }

/** Where the adapter keeps what it knows about a request. */
export const handledRequest: unique symbol = Symbol('pawl.request')

/**
 * What clients send, before validation has filled in defaults or transformed anything. To a type provider, this is what a
 * serializer takes: the input of its schemas.
 */
interface AsSent<TypeProvider extends FastifyTypeProvider> extends FastifyTypeProvider {
  readonly validator: InputOf<TypeProvider, this['schema']>
}
type InputOf<Provider extends FastifyTypeProvider, Schema> = unknown extends (Provider & {
  schema: Schema
})['serializer']
  ? (Provider & { schema: Schema })['validator']
  : (Provider & { schema: Schema })['serializer']

declare module 'fastify' {
  interface FastifyInstance {
    /** Every route that changes state, and whether it takes a key. */
    idempotencyAudit(): readonly AuditedRoute[]
  }

  interface FastifyRequest {
    /** Runs a pipeline under the request's idempotency key. On routes with the `idempotency` option. */
    readonly pawl: PawlRequest
    /** The transaction of an atomic handler. What is written here is stored together with the answer, or not at all. */
    readonly tx: Transaction<RegisteredDatabase>
    /** @internal */
    [handledRequest]: HandledRequest | null
  }

  interface RouteShorthandOptions<
    RawServer extends RawServerBase = RawServerDefault,
    RawRequest extends RawRequestDefaultExpression<RawServer> = RawRequestDefaultExpression<RawServer>,
    RawReply extends RawReplyDefaultExpression<RawServer> = RawReplyDefaultExpression<RawServer>,
    RouteGeneric extends RouteGenericInterface = RouteGenericInterface,
    ContextConfig = ContextConfigDefault,
    SchemaCompiler extends FastifySchema = FastifySchema,
    TypeProvider extends FastifyTypeProvider = FastifyTypeProviderDefault,
    Logger extends FastifyBaseLogger = FastifyBaseLogger,
  > {
    /** Marks the route: its handler runs a pipeline under the client's key. `false` says that it needs none. */
    idempotency?: RouteIdempotency<
      FastifyRequest<
        RouteGeneric,
        RawServer,
        RawRequest,
        NoInfer<SchemaCompiler>,
        AsSent<TypeProvider>
      >['body'],
      FastifyRequest<
        RouteGeneric,
        RawServer,
        RawRequest,
        NoInfer<SchemaCompiler>,
        AsSent<TypeProvider>
      >['query']
    >
  }
}
