import { PawlError } from '@pawl/core'
import { hashKeyName, inspectById } from '@pawl/core/internal'
import type { FastifyRequest, RouteOptions } from 'fastify'
import { type Answer, type Answerable, answerTo, problemOf } from './answer.js'
import { locationOf } from './ask-later.js'
import { checkScope } from './check-scope.js'
import { type LoggedStatus, logNotAccepted, logOutcome, logThrownByEngine } from './log-outcome.js'
import { nameOfRoute } from './name-of-route.js'
import type { PluginSettings } from './options.js'
import type { AsyncSettings } from './respond-async.js'
import { sendAnswer } from './send-answer.js'

/** What became of a request, for whoever has its id. One of somebody else is as unknown as one that never was. */
type KeyStatus =
  | { readonly type: 'unknown' }
  | { readonly type: 'known'; readonly logged: LoggedStatus; readonly outcome: Answerable }

const ASKED_BY_ID = { key: null, canAskAgain: true, dependsOnPrefer: false, changes: true }

/** `GET` and `HEAD` of one request's status. It only reads: no lock, no lease, and nothing is run. */
export function statusResource(plugin: PluginSettings, settings: AsyncSettings): RouteOptions {
  return {
    method: 'GET',
    url: `${settings.statusPath}/:keyId`,
    exposeHeadRoute: true,
    ...(settings.onRequest === null ? {} : { onRequest: settings.onRequest }),
    handler: async (request, reply) => {
      // What it throws, such as 403, is the application's to answer.
      const scope: unknown = await plugin.scope(request)
      const answer = await answerFor(request, plugin, settings, scope)
      await sendAnswer(reply, plugin, answer, ASKED_BY_ID)
    },
  }
}

async function answerFor(
  request: FastifyRequest,
  plugin: PluginSettings,
  settings: AsyncSettings,
  scope: unknown,
): Promise<Answer> {
  const name = nameOfRoute(request)
  const { keyId } = request.params as { readonly keyId: string }
  try {
    const status = await readStatus(plugin, settings, checkScope(scope, name), keyId)
    if (status.type === 'unknown') {
      logNotAccepted(request.log, name, 'request_not_found')
      return { type: 'problem', problem: { code: 'request_not_found' } }
    }
    const { outcome, logged } = status
    logOutcome(request.log, logged, outcome)
    return answerTo(outcome)
  } catch (error) {
    const problem = problemOf(error)
    logThrownByEngine(request.log, name, problem.code, error)
    return { type: 'problem', problem }
  }
}

async function readStatus(
  { engine }: PluginSettings,
  settings: AsyncSettings,
  scope: string,
  id: string,
): Promise<KeyStatus> {
  let view: Awaited<ReturnType<typeof inspectById>>
  try {
    view = await inspectById(engine, id)
  } catch (error) {
    if (error instanceof PawlError && error.code === 'PAWL_INVALID_REQUEST') return { type: 'unknown' }
    return { type: 'known', logged: { asked: 'status' }, outcome: { type: 'unavailable', error } }
  }
  if (view === null || view.scope !== scope) return { type: 'unknown' }
  const { keyId, key, pipeline, response, stuckReason, recoveryPoint, lastError, expiresAt } = view
  const logged: LoggedStatus = { asked: 'status', keyHash: hashKeyName(engine, scope, key), pipeline }
  if (response !== null && expiresAt !== null)
    return { type: 'known', logged, outcome: { type: 'replayed', keyId, response, expiresAt } }
  if (stuckReason !== null) {
    const outcome = { type: 'stuck', keyId, reason: stuckReason, recoveryPoint, lastError } as const
    return { type: 'known', logged, outcome }
  }
  const location = locationOf(settings, keyId)
  const outcome = { type: 'enqueued', keyId, fresh: false, location, isPreferred: false } as const
  return { type: 'known', logged, outcome }
}
