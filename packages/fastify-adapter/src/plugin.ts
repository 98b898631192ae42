import { PawlError } from '@pawl/core'
import type { FastifyInstance, FastifyPluginAsync, FastifyRequest, RouteOptions } from 'fastify'
import fp from 'fastify-plugin'
import type { Transaction } from 'kysely'
import { type AuditedRoute, auditRoute, routesBefore, unprotected } from './audit.js'
import { handledRequest } from './augmentation.js'
import { documentRoute, documentStatus } from './document-route.js'
import type { HandledRequest } from './handled-request.js'
import { markRoute, methodsOf } from './mark-route.js'
import { nameOfRoute } from './name-of-route.js'
import type { FastifyPawlOptions } from './options.js'
import { type PluginSettings, readPluginOptions } from './plugin-settings.js'
import type { RouteSettings } from './route-settings.js'
import { statusResource } from './status-resource.js'
import { WaitingRoom } from './waiting-room.js'

/** The registration that a route belongs to: the nearest, where the plugin is registered at several levels. */
const registration: unique symbol = Symbol('pawl.registration')
type Registered = FastifyInstance & { [registration]?: Registration }

interface Registration {
  readonly settings: PluginSettings
  readonly audited: AuditedRoute[]
}

/** Apps that already have a registration. Encapsulated instances share their server. */
const audited = new WeakSet<FastifyInstance['server']>()

const plugin: FastifyPluginAsync<FastifyPawlOptions> = async (app, options) => {
  const settings = readPluginOptions(options)
  const own: Registration = { settings, audited: audited.has(app.server) ? [] : routesBefore(app) }
  audited.add(app.server)
  const marked: { readonly route: RouteOptions; readonly settings: RouteSettings }[] = []
  const statusHandlers = new Set<RouteOptions['handler']>()
  const statusRoutes: RouteOptions[] = []
  register(app, own)

  app.addHook('onRoute', function (this: Registered, route) {
    if (this[registration] !== own) return
    if (statusHandlers.has(route.handler)) return void statusRoutes.push(route)
    // With the hooks that it was declared with, without ours.
    const declared = { ...route }
    const mark = markRoute(this, route, settings)
    own.audited.push(...auditRoute(methodsOf(route), route.url, mark))
    if (mark?.type !== 'marked') return
    marked.push({ route, settings: mark.settings })
    if (settings.respondAsync === null || mark.settings.respondAsync === 'never') return
    const status = statusResource(declared, mark.settings, settings.respondAsync)
    statusHandlers.add(status.handler)
    this.route(status)
  })

  app.addHook('onReady', async () => {
    for (const { route, settings: routeSettings } of marked) documentRoute(route, routeSettings)
    for (const route of statusRoutes) documentStatus(route, settings)
    const error = settings.enforce === 'off' ? null : unprotected(own.audited)
    if (error !== null && settings.enforce === 'error') throw error
    if (error !== null) app.log.warn(error.message)
    // Nobody waits for it: an app is ready before that, and also while the database is away.
    void settings.engine.recordPipelines()
  })

  // Begins to drain before Fastify waits for its requests, so that they end within the time limit; we wait for it
  // afterwards.
  app.addHook('preClose', async () => {
    void settings.engine.close(settings.close)
    WaitingRoom.of(settings.engine).close()
  })
  app.addHook('onClose', async () => settings.engine.close(settings.close))
}

/** Decorates once; a further registration in a nested instance only takes over the routes there. */
function register(app: Registered, own: Registration): void {
  if (Object.hasOwn(app, registration)) {
    throw new PawlError(
      'PAWL_INVALID_OPTION',
      'register(fastifyPawl): it is already registered on this instance. Register it once, or the second time inside ' +
        'app.register(async (child) => …).',
    )
  }
  const isInherited = registration in app
  app[registration] = own
  // We look for our own mark: a decorator of that name may be somebody else's, and then Fastify has to say so.
  if (isInherited) return
  app.decorateRequest(handledRequest, null)
  app.decorateRequest('pawl', {
    getter(this: FastifyRequest): HandledRequest {
      return this[handledRequest] ?? notMarked(this)
    },
  })
  app.decorateRequest('tx', {
    getter(this: FastifyRequest): Transaction<any> {
      return (this[handledRequest] ?? notMarked(this)).atomicTransaction.tx
    },
  })
  app.decorate('idempotencyAudit', function (this: Registered) {
    return [...(this[registration]?.audited ?? [])]
  })
}

function notMarked(request: FastifyRequest): never {
  throw new PawlError(
    'PAWL_ROUTE_NOT_MARKED',
    `${nameOfRoute(request)} has no idempotency option, or was declared before the plugin was registered. Mark the ` +
      'route, and await app.register(fastifyPawl, …) before it.',
  )
}

/** The signature that `app.register` infers the options from. */
export const fastifyPawl: FastifyPluginAsync<FastifyPawlOptions> = fp(plugin, {
  name: '@pawl/fastify',
  fastify: '5.x',
})
