import { Type, type TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import type { AnyPipeline, Caps, Engine, EngineOptions, LimitsOption } from '@pawl/core'
import fastifyPawl, { type FastifyPawlOptions, type IdempotencyOptions } from '@pawl/fastify'
import Fastify, { type FastifyInstance, type FastifyServerOptions } from 'fastify'
import type pg from 'pg'
import { inject, onTestFinished } from 'vitest'
import { Provider } from './provider.js'
import { createEngine, createRideOf, createRideTables, type Database } from './rides.js'
import { TestDatabase } from './test-database.js'

declare module 'fastify' {
  interface FastifyRequest {
    user: string | null
  }
}

declare module '@pawl/core' {
  interface Register {
    database: Database
  }
}

/** Tokens that are no longer valid. The token itself is the user's name. */
export type Revoked = Set<string>

export interface RideApp {
  readonly app: FastifyInstance
  readonly engine: Engine<Database>
  readonly database: TestDatabase
  readonly pool: pg.Pool
  readonly provider: Provider
  readonly revoked: Revoked
  /** Every line of the log, parsed. */
  readonly log: Record<string, unknown>[]
}

export interface RideAppOptions {
  readonly plugin?: Partial<FastifyPawlOptions>
  readonly route?: IdempotencyOptions
  readonly server?: Pick<
    FastifyServerOptions,
    | 'ajv'
    | 'bodyLimit'
    | 'onProtoPoisoning'
    | 'requestTimeout'
    | 'handlerTimeout'
    | 'rewriteUrl'
    | 'routerOptions'
  >
  readonly engine?: {
    readonly acquireTimeoutMs?: number
    readonly leaseMs?: number
    readonly caps?: Partial<Caps>
    readonly limits?: LimitsOption
    readonly redact?: (text: string) => string
    readonly pool?: pg.Pool
  }
  /** Pipelines that are registered besides the ride. */
  readonly pipelines?: readonly AnyPipeline<Database>[]
  /** Shares the database and the provider with another app, as a second process would. */
  readonly beside?: Pick<RideApp, 'database' | 'provider'>
  /** The default is an ordinary engine. */
  readonly engineOf?: (options: EngineOptions<Database>) => Engine<Database>
  /** Called before the plugin is registered. */
  readonly before?: (app: FastifyInstance) => void | Promise<void>
  /** Further routes, declared after the plugin and before the app is ready. */
  readonly routes?: (app: FastifyInstance, engine: Engine<Database>) => void | Promise<void>
}

/** A Fastify app with the ride of the design on `POST /rides`, for whoever has a bearer token. It is ready, and not listening. */
export async function rideApp(options: RideAppOptions = {}): Promise<RideApp> {
  const { database, provider } = options.beside ?? (await surroundings())
  const createRide = createRideOf(provider)
  const { leaseMs, pool = database.pool(), ...engineOptions } = options.engine ?? {}
  const engine = (options.engineOf ?? createEngine)({
    pool,
    schema: database.schema,
    pipelines: [createRide, ...(options.pipelines ?? [])],
    ...engineOptions,
    ...(leaseMs === undefined ? {} : { defaults: { leaseMs } }),
  })
  const log: Record<string, unknown>[] = []
  const revoked: Revoked = new Set()
  const app: FastifyInstance = Fastify({ ...options.server, logger: logTo(log) })
  onTestFinished(() => app.close())
  authenticate(app, revoked)
  await options.before?.(app)
  await app.register(fastifyPawl, { engine, scope: (request) => request.user, ...options.plugin })
  app.withTypeProvider<TypeBoxTypeProvider>().post(
    '/rides',
    {
      schema: { body: Type.Object({ amount: Type.Integer({ minimum: 1 }) }) },
      idempotency: options.route ?? true,
    },
    (request) => request.pawl.run(createRide, request.body),
  )
  await options.routes?.(app, engine)
  await app.ready()
  return { app, engine, database, pool, provider, revoked, log }
}

/** A database and a provider's account for one or more apps of a test. */
export async function surroundings(url?: string): Promise<Pick<RideApp, 'database' | 'provider'>> {
  const database = await (url === undefined ? TestDatabase.create() : TestDatabase.createNew(url))
  // These calls are made in reverse order, so the apps are closed by then.
  onTestFinished(() => database.drop())
  await createRideTables(database)
  return { database, provider: new Provider(inject('providerUrl')) }
}

function logTo(lines: Record<string, unknown>[]): NonNullable<FastifyServerOptions['logger']> {
  const stream = { write: (line: string) => lines.push(JSON.parse(line) as Record<string, unknown>) }
  return { level: 'debug', stream }
}

/** Authenticates as applications do: in a separate hook, before anything else. */
export function authenticate(app: FastifyInstance, revoked: Revoked = new Set()): void {
  app.decorateRequest('user', null)
  app.addHook('onRequest', async (request, reply) => {
    const [, token] = /^Bearer (.+)$/.exec(request.headers.authorization ?? '') ?? []
    if (token === undefined || revoked.has(token)) return reply.code(401).send({ error: 'who are you?' })
    request.user = token
    return undefined
  })
}
