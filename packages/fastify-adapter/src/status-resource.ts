import { LimitedError, PawlError } from '@pawl/core'
import { hashKeyName, inspectOwn } from '@pawl/core/internal'
import type { FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { type Answer, type Answerable, answerTo, problemOf, type TooManyLookups } from './answer.js'
import { checkBinding } from './check-binding.js'
import { checkScope } from './check-scope.js'
import { pathOf } from './fingerprint-request.js'
import { type LoggedStatus, logNotAccepted, logOutcome, logThrownByEngine } from './log-outcome.js'
import { nameOfRoute } from './name-of-route.js'
import type { RouteSettings } from './route-settings.js'
import type { AskedStatus, AsyncSettings } from './respond-async.js'
import { sendAnswer } from './send-answer.js'
import { KEY_ID_PARAMETER, originAsked, statusBelow } from './status-address.js'

/** What became of a request, for whoever has its id. Somebody else's request is as unknown as one that never existed. */
type KeyStatus =
  | { readonly type: 'unknown' }
  | { readonly type: 'unavailable'; readonly error: unknown }
  | TooManyLookups
  | {
      readonly type: 'known'
      readonly logged: LoggedStatus
      readonly asked: AskedStatus
      readonly outcome: Answerable
    }

const ASKED_BY_ID = { key: null, canAskAgain: true, dependsOnPrefer: false, changes: true }

/**
 * `GET` and `HEAD` of the status of requests to one route. It is declared where that route is, below its address and with
 * its hooks, so that whoever may not send a request learns nothing about one either. It only reads: no lock, no lease,
 * and nothing is run.
 */
export function statusResource(
  owner: RouteOptions & { readonly routePath?: string },
  route: RouteSettings,
  settings: AsyncSettings,
): RouteOptions {
  const {
    // What belongs to the route itself, and not to its hooks.
    idempotency: _idempotency,
    routePath = owner.url,
    schema,
    bodyLimit: _bodyLimit,
    ...shared
  } = owner
  const { params } = schema ?? {}
  return {
    ...shared,
    method: 'GET',
    url: `${statusBelow(routePath, route.statusSuffix)}/:${KEY_ID_PARAMETER}`,
    // Hooks may rely on what validation makes of parameters.
    schema: params === undefined ? {} : { params },
    attachValidation: false,
    exposeHeadRoute: true,
    onRequest: [hideKeyId, ...[owner.onRequest ?? []].flat(), ...settings.onRequest, watchBody],
    handler: async (request, reply) => {
      // The application answers what it throws, such as a 403.
      const { scope, bindTo } = route.plugin
      const asking: Owner = {
        scope: await scope(request),
        ...(bindTo !== null && { bindTo: await bindTo(request) }),
      }
      const answer = await answerFor(request, route, settings, asking)
      await sendAnswer(reply, route.plugin, answer, ASKED_BY_ID)
    },
  }
}

/** The route's hooks and schemas do not know the id, and may refuse what they do not know. */
function hideKeyId({ params }: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  Reflect.deleteProperty(params as object, KEY_ID_PARAMETER)
  done()
}

/** Requests whose hooks looked for a body. There is none, so whatever they decided by it is worthless. */
const lookedForBody = new WeakSet<FastifyRequest>()

function watchBody(request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  Object.defineProperty(request, 'body', {
    configurable: true,
    // Code that logs or copies a request does not decide by its body.
    enumerable: false,
    get() {
      lookedForBody.add(request)
      return undefined
    },
    set(value: unknown) {
      Object.defineProperty(request, 'body', { value, writable: true })
    },
  })
  done()
}

/** What the application's functions returned. `bindTo` is there only where keys are bound. */
interface Owner {
  readonly scope: unknown
  readonly bindTo?: unknown
}

async function answerFor(
  request: FastifyRequest,
  route: RouteSettings,
  settings: AsyncSettings,
  owner: Owner,
): Promise<Answer> {
  const name = nameOfRoute(request)
  const notFound = (): Answer => {
    logNotAccepted(request.log, name, 'request_not_found')
    return { type: 'problem', problem: { code: 'request_not_found' } }
  }
  let status: KeyStatus
  try {
    if (settings.authorize === null && lookedForBody.has(request)) throw needsAuthorize(route)
    const scope = checkScope(owner.scope, name)
    const bound = 'bindTo' in owner ? { bindTo: checkBinding(owner.bindTo, name) } : {}
    status = await readStatus(request, route, { scope, ...bound })
  } catch (error) {
    const problem = problemOf(error)
    logThrownByEngine(route.plugin, request.log, name, problem.code, error)
    return { type: 'problem', problem }
  }
  if (status.type === 'unknown') return notFound()
  if (status.type === 'unavailable' || status.type === 'limited') {
    logOutcome(route.plugin, request.log, { asked: 'status' }, status)
    return answerTo(status)
  }
  const { outcome, logged, asked } = status
  // The application answers what it throws, as with `scope`.
  const allowed: unknown = settings.authorize === null ? true : await settings.authorize(request, asked)
  if (allowed !== true) return notFound()
  logOutcome(route.plugin, request.log, logged, outcome)
  return answerTo(outcome)
}

async function readStatus(
  request: FastifyRequest,
  { plugin: { engine }, origin: ofRoute, statusSuffix, name: route }: RouteSettings,
  owner: { readonly scope: string; readonly bindTo?: string },
): Promise<KeyStatus> {
  const { scope } = owner
  const path = statusBelow(pathOf(request.originalUrl), '')
  const origin = originAsked(ofRoute, statusSuffix, request)
  // Not taken from `params`, which a schema of the route may have changed.
  const slash = path.lastIndexOf('/')
  let view: Awaited<ReturnType<typeof inspectOwn>>
  try {
    view = await inspectOwn(engine, { keyId: path.slice(slash + 1), ...owner, origin })
  } catch (error) {
    if (error instanceof PawlError && error.code === 'PAWL_INVALID_REQUEST') return { type: 'unknown' }
    if (error instanceof LimitedError) {
      const { max, perMs, retryAfterMs } = error
      return { type: 'limited', limit: 'lookups', of: 'scope', max, perMs, retryAfterMs }
    }
    return { type: 'unavailable', error }
  }
  if (view === null) return { type: 'unknown' }
  const { keyId, key, pipeline, response, stuckReason, recoveryPoint, lastError, expiresAt } = view
  const logged: LoggedStatus = { asked: 'status', keyHash: hashKeyName(engine, scope, key), pipeline }
  const known = { type: 'known', logged, asked: { keyId, scope, pipeline, route } } as const
  if (response !== null && expiresAt !== null)
    return { ...known, outcome: { type: 'replayed', keyId, response, expiresAt } }
  if (stuckReason !== null)
    return { ...known, outcome: { type: 'stuck', keyId, reason: stuckReason, recoveryPoint, lastError } }
  const location = `${path.slice(0, slash)}/${keyId}`
  return { ...known, outcome: { type: 'enqueued', keyId, fresh: false, location, isPreferred: false } }
}

function needsAuthorize({ name }: RouteSettings): PawlError {
  return new PawlError(
    'PAWL_STATUS_NOT_AUTHORIZED',
    `A hook of ${name} looked at the body of a status request, which has none: what it decides from the body cannot be ` +
      'decided again. Give register(fastifyPawl) respondAsync: { authorize }, which decides who may see the status.',
  )
}
