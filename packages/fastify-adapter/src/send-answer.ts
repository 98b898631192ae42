import type { FastifyReply } from 'fastify'
import type { Answer } from './answer.js'
import type { PluginSettings } from './plugin-settings.js'
import { type Problem, problems } from './problems.js'
import { rateLimitFields } from './rate-limit-fields.js'
import { writeKey } from './read-key.js'

/** The key an answer belongs to, as the client can send it again. */
export interface AnsweredKey {
  readonly key: string
  /** Generated here, because the client sent none. */
  readonly generated: boolean
}

/** What an answer depends on besides its outcome. */
interface AnswerContext {
  /** Null where the answer belongs to no key. */
  readonly key: AnsweredKey | null
  /** Whether the client can ask for a stored response again. If so, it is told until when. */
  readonly canAskAgain: boolean
  /** Whether another `Prefer` would lead to another answer. */
  readonly dependsOnPrefer: boolean
  /** Whether this address may give another answer later. */
  readonly changes: boolean
}

/**
 * Sends an answer and waits until it is out. A first response and its replay go the same way, from the same bytes, so
 * they can differ only in the header that says which is which.
 */
export async function sendAnswer(
  reply: FastifyReply,
  plugin: PluginSettings,
  answer: Answer,
  context: AnswerContext,
): Promise<void> {
  // The request may have been answered meanwhile, by a time-out of the server.
  if (reply.sent) return
  const { key } = context
  if (key !== null && (key.generated || plugin.profile.echoesKey))
    reply.header(plugin.header, writeKey(key.key))
  const body = setAnswer(reply, plugin, answer, context)
  // After the stored headers, which may have one of the same name.
  if (context.dependsOnPrefer) addVary(reply, 'Prefer')
  // A cache in between must not keep what is true only at this moment.
  if (context.changes || answer.type !== 'response') reply.header('cache-control', 'no-store')
  // An empty buffer would be given a content type.
  reply.send(body.length === 0 ? undefined : body)
  // While hooks work on it, Fastify would take the handler's `undefined` for a second answer.
  if (!reply.sent) await reply
}

/** Sets status and headers, and returns the body. */
function setAnswer(
  reply: FastifyReply,
  plugin: PluginSettings,
  answer: Answer,
  { canAskAgain }: AnswerContext,
): Buffer {
  switch (answer.type) {
    case 'response':
      return setResponse(reply, plugin, answer, canAskAgain)
    case 'accepted':
      return setAccepted(reply, answer)
    case 'problem':
      return setProblem(reply, plugin, answer.problem)
  }
}

function setResponse(
  reply: FastifyReply,
  plugin: PluginSettings,
  answer: Extract<Answer, { type: 'response' }>,
  canAskAgain: boolean,
): Buffer {
  const { status, headers, body } = answer.response
  const { replayedHeader, shouldRetryHeader } = plugin.profile
  reply.code(status)
  for (const [name, value] of Object.entries(headers)) {
    // Hooks, such as those for CORS, may have named others.
    if (name === 'vary') addVary(reply, value)
    else if (answer.expiresAt === null || plugin.storedHeaders.has(name)) reply.header(name, value)
    else reply.log.warn({ header: name }, 'a header of the response must not be replayed, and was left out')
  }
  if (answer.replayed) reply.header(replayedHeader, 'true')
  if (answer.expiresAt !== null && canAskAgain)
    reply.header('idempotency-expires', answer.expiresAt.toUTCString())
  if (answer.retryAfterMs !== null) {
    if (!reply.hasHeader('retry-after')) reply.header('retry-after', seconds(answer.retryAfterMs))
    if (shouldRetryHeader !== null) reply.header(shouldRetryHeader, 'true')
  }
  return body
}

function setAccepted(reply: FastifyReply, answer: Extract<Answer, { type: 'accepted' }>): Buffer {
  const { location, retryAfterMs, isPreferred } = answer
  reply.code(202).header('content-type', 'application/json; charset=utf-8')
  reply.header('location', location).header('retry-after', seconds(retryAfterMs))
  if (isPreferred) reply.header('preference-applied', 'respond-async')
  // As bytes, for the same reason as a problem.
  return Buffer.from(JSON.stringify({ status: 'running', location }))
}

function setProblem(reply: FastifyReply, plugin: PluginSettings, problem: Problem): Buffer {
  const { profile, problemBaseUrl } = plugin
  reply.code(profile.statusOf(problem.code)).header('content-type', profile.contentType)
  const { limit, retryAfterMs = 0 } = problem
  if (problem.retryAfterMs !== undefined) reply.header('retry-after', seconds(problem.retryAfterMs))
  if (limit !== undefined) reply.headers(rateLimitFields(limit, retryAfterMs))
  if (profile.shouldRetryHeader !== null)
    reply.header(profile.shouldRetryHeader, String(problems[problem.code].retry))
  // As bytes: a response schema of the route is for its own answers, and would drop members of this one.
  const typeUrl = problemBaseUrl === null ? null : `${problemBaseUrl}#${problem.code}`
  return Buffer.from(JSON.stringify(profile.bodyOf(problem, typeUrl)))
}

/** Adds to what the answer already depends on. */
function addVary(reply: FastifyReply, names: string): void {
  const given = listed([reply.getHeader('vary') ?? []].flat().join(','))
  const known = new Set(given.map((name) => name.toLowerCase()))
  const added = known.has('*') ? [] : listed(names).filter((name) => !known.has(name.toLowerCase()))
  if (added.length > 0) reply.header('vary', [...given, ...added].join(', '))
}

function listed(names: string): string[] {
  return names
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
}

/** The header can express only whole seconds. They are rounded up, or the client would come back too early. */
function seconds(ms: number): string {
  return String(Math.max(1, Math.ceil(ms / 1_000)))
}
