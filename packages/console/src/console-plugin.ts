import { PawlError, safeError } from '@pawl/core'
import type {
  FastifyInstance,
  FastifyPluginAsync,
  FastifyReply,
  FastifyRequest,
  HTTPMethods,
  RouteOptions,
} from 'fastify'
import { readAssets } from './assets.js'
import { ConsoleContext } from './console-context.js'
import { ConsoleError, STATUS_OF } from './console-error.js'
import { type ConsoleOptions, readConsoleOptions } from './console-options.js'
import { guardOrigin, guardSignIn } from './guard.js'
import { MAX_BODY_BYTES } from './limits.js'
import { invalid } from './parse-query.js'
import { readFailure } from './read-failure.js'
import { refuseToListen } from './refuse-to-listen.js'
import { act, preview, previewRequeue, requeue, reveal } from './routes/change.js'
import { EventRoute } from './routes/events.js'
import { deadJobs, inbox } from './routes/inbox.js'
import { exportInterventions, listInterventions } from './routes/interventions.js'
import { duplicates, find, flow, session, showRequest } from './routes/look.js'
import { servePage } from './routes/pages.js'
import { reconciliation } from './routes/reconciliation.js'
import { listRequests } from './routes/requests.js'
import { SECURITY_HEADERS } from './security-headers.js'
import { tellFailure } from './tell-failure.js'

/** Answers a request to the API. */
type Handle = (console: ConsoleContext, request: FastifyRequest, reply: FastifyReply) => unknown

/** What can be asked. */
const LOOKS: Readonly<Record<string, Handle>> = {
  session,
  flow,
  find,
  requests: listRequests,
  'requests/:id': showRequest,
  inbox,
  dead: deadJobs,
  duplicates,
  reconciliation,
  interventions: listInterventions,
  'interventions.csv': (console, request, reply) => exportInterventions(console, request, reply, 'csv'),
  'interventions.json': (console, request, reply) => exportInterventions(console, request, reply, 'json'),
}

/** What can be done, all of it by POST. */
const CHANGES: Readonly<Record<string, Handle>> = {
  'requests/:id/reveal': reveal,
  'requests/:id/preview/:action': preview,
  'requests/:id/:action': act,
  'dead/preview': previewRequeue,
  'dead/requeue': requeue,
}

/** For `@pawl/fastify`, which asks of every POST of an app whether a retry of it is safe. */
const EXEMPT = {
  idempotency: {
    exempt:
      'An operator asks for each change once, and the revision of the key that they saw keeps a second one out.',
  },
}

/**
 * The console as a Fastify plugin, to mount behind an application's own authentication.
 *
 * @example
 * await app.register(fastifyPawlConsole, {
 *   prefix: '/ops/pawl',
 *   pool,
 *   authenticate: (request) =>
 *     request.user?.isOperator === true ? { actor: request.user.email, canChange: true } : null,
 * })
 */
export const fastifyPawlConsole: FastifyPluginAsync<ConsoleOptions> = async (app, options) => {
  const settings = readConsoleOptions(options)
  const assets = readAssets()
  const console = new ConsoleContext(settings, app.log)
  const events = new EventRoute(console)
  if (settings.authenticate === null) refuseToListen(app)

  takeJson(app)
  app.setErrorHandler((error, request, reply) => {
    const failure = readFailure(fromFastify(error), settings.schema)
    const status = STATUS_OF[failure.code]
    // What was the caller's doing is theirs to know; the rest is for whoever runs this.
    if (status >= 500)
      request.log.error({ err: safeError(failure.cause ?? error) }, 'a request of the console failed')
    return reply.code(status).type('application/json; charset=utf-8').send(tellFailure(failure))
  })
  app.addHook('onRequest', async (request, reply) => {
    reply.headers(SECURITY_HEADERS)
    if (await guardSignIn(console, request, reply)) return reply
    if (request.routeOptions.config.isApi === true) guardOrigin(request)
  })
  const route = (method: HTTPMethods, url: string, isApi: boolean, handler: RouteOptions['handler']) =>
    app.route({
      method,
      url,
      handler,
      exposeHeadRoute: false,
      bodyLimit: MAX_BODY_BYTES,
      config: { isApi },
      ...(method === 'POST' && EXEMPT),
    })
  const answer = (handle: Handle): RouteOptions['handler'] => {
    return async (request, reply) => {
      const answered = await handle(console, request, reply)
      return typeof answered === 'string'
        ? answered
        : reply.type('application/json; charset=utf-8').send(JSON.stringify(answered))
    }
  }
  for (const [path, handle] of Object.entries(LOOKS)) route('GET', `/api/${path}`, true, answer(handle))
  for (const [path, handle] of Object.entries(CHANGES)) route('POST', `/api/${path}`, true, answer(handle))
  route('GET', '/api/events', true, (request, reply) => events.open(request, reply))
  for (const url of ['/', '/*'])
    route('GET', url, false, (request, reply) => servePage(assets, app.prefix, request, reply))

  // Without a prefix, what is not found is for the application to answer.
  if (app.prefix !== '')
    app.setNotFoundHandler(() => {
      throw new ConsoleError('not_found', 'There is no such page, or not with that method.')
    })

  // Streams end before Fastify waits for its connections to.
  app.addHook('preClose', async () => events.close())
  app.addHook('onClose', async () => console.close())
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** @internal Whether a route belongs to the API of the console. */
    isApi?: boolean
  }
}

/** JSON and nothing else, parsed by us: an application's own parsers may do more, or less. */
function takeJson(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) => {
    try {
      done(null, JSON.parse(body as string))
    } catch {
      done(invalid('The body is not JSON.'))
    }
  })
}

/** Fastify's own errors have a status; those of the caller are told in its words. */
function fromFastify(error: unknown): unknown {
  const { statusCode, message } = error as { readonly statusCode?: number; readonly message?: string }
  const isTheirs =
    !(error instanceof PawlError) && statusCode !== undefined && statusCode >= 400 && statusCode < 500
  return isTheirs ? invalid(message ?? 'The request is wrong.') : error
}
