import type { NextMove } from '@pawl/core'
import type { FastifyRequest } from 'fastify'
import type { ActionResult, RequestReport } from '../api.js'
import type { ConsoleContext } from '../console-context.js'
import { ConsoleError } from '../console-error.js'
import { guardChange, guardReveal } from '../guard.js'
import { type Body, readBody, reasonOf } from '../parse-body.js'
import { invalid } from '../parse-query.js'
import { deleted, refusal, whoWasFirst } from '../refusal.js'
import { summarize } from '../views/shown-key.js'
import { KEY_ACTIONS, type KeyAction, readAction } from './actions.js'
import { eraseKey } from './erase-key.js'
import { completeReport, keyIdOf, noSuchKey } from './look.js'
import { type RequeuedJobs, sayRequeue } from './say-requeue.js'

/** Does it. Whoever is second is told who was first, with 409. */
export async function act(console: ConsoleContext, request: FastifyRequest): Promise<ActionResult> {
  const actor = guardChange(console, request)
  const keyId = keyIdOf(request)
  const action = actionOf(request)
  if (action === 'erase') return eraseKey(console, { keyId, actor, dryRun: false, body: request.body })
  const asked = readAction(action, request.body, { operator: console.changer, keyId, actor, dryRun: false })
  const end = await action.run(asked)
  switch (end.type) {
    case 'done':
    case 'would_be_done':
      return { type: 'done', sentence: action.did(end.key, asked.body), key: summarize(end.key) }
    case 'refused':
      throw refusal(end.detail, end.key, end.by)
    case 'not_found':
      if (end.by === null) return noSuchKey(keyId)
      throw deleted(end.by)
  }
}

/** Says what it would do, and changes nothing. */
export async function preview(console: ConsoleContext, request: FastifyRequest): Promise<ActionResult> {
  const actor = guardChange(console, request)
  const keyId = keyIdOf(request)
  const action = actionOf(request)
  if (action === 'erase') return eraseKey(console, { keyId, actor, dryRun: true, body: request.body })
  // Read-only connections: a preview that changed something would fail instead.
  const asked = readAction(action, request.body, { operator: console.reader, keyId, actor, dryRun: true })
  const end = await action.run(asked)
  switch (end.type) {
    case 'done':
    case 'would_be_done': {
      const next = await console.reader.next({ keyId })
      const sentence = action.would(end.key, asked.body, afterUnstick(next))
      return { type: 'would_be_done', sentence, key: summarize(end.key) }
    }
    case 'refused':
      return { type: 'refused', sentence: end.detail, by: whoWasFirst(end.by) }
    case 'not_found':
      if (end.by === null) return noSuchKey(keyId)
      return { type: 'refused', sentence: deleted(end.by).message, by: whoWasFirst(end.by) }
  }
}

/** What would happen to a stuck key that is made to run again; null where that cannot be said. */
function afterUnstick(next: NextMove | null): string | null {
  const then = next?.type === 'needs_a_person' ? next.then : null
  return then === null ? null : `Then: ${then.sentence} ${then.because}`
}

/** Shows what clients and providers sent. Noted before it is shown. */
export async function reveal(console: ConsoleContext, request: FastifyRequest): Promise<RequestReport> {
  const actor = guardReveal(console, request)
  const keyId = keyIdOf(request)
  const reason = reasonOf(readBody(request.body, ['reason']))
  const report = await console.changer.reveal({ keyId }, { actor, reason })
  return completeReport(console, report ?? noSuchKey(keyId), true)
}

/** Has dead jobs delivered again. */
export async function requeue(
  console: ConsoleContext,
  request: FastifyRequest,
): Promise<{ readonly requeued: number }> {
  const actor = guardChange(console, request)
  const body = readBody(request.body, ['reason', 'jobIds', 'name'])
  const because = { actor, reason: reasonOf(body) }
  return { requeued: await console.changer.requeue(deadJobsOf(body), because) }
}

/** Says what delivering them again would do. Jobs know no revision: what somebody else has requeued meanwhile is just not dead any more. */
export async function previewRequeue(
  console: ConsoleContext,
  request: FastifyRequest,
): Promise<ActionResult> {
  guardChange(console, request)
  const which = deadJobsOf(readBody(request.body, ['reason', 'jobIds', 'name']))
  const sentence = await sayRequeue(console.reader, which)
  return { type: 'would_be_done', sentence, key: null }
}

/** Core checks the ids and the name. */
function deadJobsOf({ jobIds, name }: Body): RequeuedJobs {
  if ((jobIds === undefined) === (name === undefined)) throw invalid('It takes either jobIds or name.')
  return jobIds === undefined ? { name: name as string } : { jobIds: jobIds as readonly string[] }
}

function actionOf({ params }: FastifyRequest): KeyAction | 'erase' {
  const { action } = params as { readonly action: string }
  if (action === 'erase') return 'erase'
  const found = Object.hasOwn(KEY_ACTIONS, action) ? KEY_ACTIONS[action] : undefined
  if (found !== undefined) return found
  throw new ConsoleError(
    'not_found',
    `There is no action '${action.slice(0, 80)}'. There are ${[...Object.keys(KEY_ACTIONS), 'erase'].join(', ')}.`,
  )
}
