import { prepareAtomic, retentionMsOf } from '@pawl/core/internal'
import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { type AtomicPipeline, atomicPipeline } from './atomic.js'
import { handledRequest } from './augmentation.js'
import { boundErrors } from './bound-errors.js'
import { HandledRequest } from './handled-request.js'
import type { PluginSettings } from './plugin-settings.js'
import { readRouteOption, type RouteMark, type RouteSettings } from './route-settings.js'
import { checkRetention } from './sent-at.js'

type Handler = RouteOptions['handler']

/** Reads a route's `idempotency` option and applies it to the route; returns null where there is none. */
export function markRoute(
  app: FastifyInstance,
  route: RouteOptions,
  plugin: PluginSettings,
): RouteMark | null {
  const { idempotency } = route as { readonly idempotency?: unknown }
  if (idempotency === undefined) return null
  const methods = methodsOf(route)
  const { url } = route
  const mark = readRouteOption(plugin, { methods, url, constraints: constraintsOf(route) }, idempotency)
  if (mark.type === 'exempt') return mark
  const { atomic } = mark.settings
  addHooks(route, mark.settings)
  route.schemaErrorFormatter = boundErrors(app, route.schemaErrorFormatter)
  if (atomic === null) route.handler = watched(route.handler)
  else
    route.handler = inTransaction(
      route.handler,
      mark.settings,
      atomicPipeline(methods.join('-'), route.url, atomic),
    )
  return mark
}

/** Routes with the same path are told apart by their host, version or whatever else the application constrains them by. */
function constraintsOf({ constraints }: RouteOptions): string | null {
  const entries = Object.entries((constraints ?? {}) as Record<string, unknown>)
  if (entries.length === 0) return null
  return entries
    .map(([name, value]) => `${name} ${String(value)}`)
    .toSorted()
    .join(', ')
}

export function methodsOf({ method }: RouteOptions): readonly string[] {
  return [method].flat()
}

/** Before validation, the body is as it was parsed. */
function addHooks(route: RouteOptions, settings: RouteSettings): void {
  const readRequest = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void): void => {
    let refusing: Promise<void> | null
    try {
      const handling = new HandledRequest(request, reply, settings)
      request[handledRequest] = handling
      refusing = handling.refuseTooDeep()
    } catch (error) {
      return done(error as Error)
    }
    if (refusing === null) done()
    else void refusing.catch((error: unknown) => reply.send(error))
  }
  route.preValidation = [readRequest, ...listOf(route.preValidation)]
  route.onError = [...listOf(route.onError), noteFailure]
  route.onSend = [...listOf(route.onSend), checkAnswer]
}

async function noteFailure(request: FastifyRequest): Promise<void> {
  request[handledRequest]?.failed()
}

/** With a callback, not a promise: an answer whose hooks all do this is sent at once. */
function checkAnswer(
  request: FastifyRequest,
  reply: FastifyReply,
  payload: unknown,
  done: (error: Error | null, payload?: unknown) => void,
): void {
  const answered = request[handledRequest]
  const error = answered?.checkAnswer() ?? null
  if (answered === null || error === null) return done(null, payload)
  if (answered.refusesOtherAnswers) {
    // The application's error handler may leave the status as it is, and the handler may have set 201.
    reply.code(500)
    return done(error)
  }
  request.log.error({ err: answered.safeError(error) }, 'a marked route answered without its pipeline')
  done(null, payload)
}

/**
 * Takes the key before the handler runs and after every hook, even those that other plugins add to the route later. From
 * then on, an answer is the handler's.
 */
function watched(handler: Handler): Handler {
  return function watch(request, reply) {
    return handled(request).takeKey() ?? handler.call(this, request, reply)
  }
}

/** Settings that do not fit together are refused here, when the route is declared. */
function inTransaction(
  handler: Handler,
  { plugin: { engine }, name, sentAt }: RouteSettings,
  pipeline: AtomicPipeline,
): Handler {
  prepareAtomic(engine, pipeline)
  if (sentAt !== null) checkRetention(name, sentAt, retentionMsOf(engine, pipeline))
  return function atomic(this: FastifyInstance, request, reply) {
    return (
      handled(request).takeKey() ??
      handled(request).runAtomic(pipeline, () => handler.call(this, request, reply))
    )
  }
}

/** The preValidation hook of a marked route runs before anything that asks for it. */
function handled(request: FastifyRequest): HandledRequest {
  return request[handledRequest] as HandledRequest
}

function listOf<Hook>(hooks: Hook | Hook[] | undefined): Hook[] {
  return hooks === undefined ? [] : ([hooks].flat() as Hook[])
}
