import type { FastifyReply } from 'fastify'
import type { Answer } from './answer.js'
import type { PluginSettings } from './options.js'
import { type Problem, problems } from './problems.js'
import { writeKey } from './read-key.js'

/** The end of the year 9999: a date of HTTP has four digits. Later than that is never. */
const MAX_HTTP_DATE_MS = Date.UTC(9999, 11, 31)

/** The key an answer belongs to, as the client can send it again. */
export interface AnsweredKey {
  readonly key: string
  /** Made here, because the client sent none. */
  readonly generated: boolean
}

/**
 * Sends an answer and waits until it is out. A first response and its replay go the same way, from the same bytes, so
 * they cannot differ but in the header that says which is which.
 */
export async function sendAnswer(
  reply: FastifyReply,
  plugin: PluginSettings,
  answer: Answer,
  key: AnsweredKey | null,
): Promise<void> {
  // The request may have been answered meanwhile, by a time-out of the server's.
  if (reply.sent) return
  if (key !== null && (key.generated || plugin.profile.echoesKey))
    reply.header(plugin.header, writeKey(key.key))
  if (answer.type === 'problem') sendProblem(reply, plugin, answer.problem)
  else sendResponse(reply, plugin, answer, key)
  // Otherwise Fastify takes the handler's `undefined` for a second answer while hooks still work on the first.
  await reply
}

function sendResponse(
  reply: FastifyReply,
  plugin: PluginSettings,
  answer: Extract<Answer, { type: 'response' }>,
  key: AnsweredKey | null,
): void {
  const { status, headers, body } = answer.response
  const { replayedHeader, shouldRetryHeader } = plugin.profile
  reply.code(status)
  for (const [name, value] of Object.entries(headers)) {
    if (answer.expiresAt === null || plugin.storedHeaders.has(name)) reply.header(name, value)
    else reply.log.warn({ header: name }, 'a header of the response is not among storedHeaders: left out')
  }
  if (answer.replayed) reply.header(replayedHeader, 'true')
  // Nobody can ask for the replay of a key that the client did not choose.
  if (answer.expiresAt !== null && key?.generated === false && answer.expiresAt.getTime() <= MAX_HTTP_DATE_MS)
    reply.header('idempotency-expires', answer.expiresAt.toUTCString())
  if (answer.retryAfterMs !== null) {
    if (!reply.hasHeader('retry-after')) reply.header('retry-after', seconds(answer.retryAfterMs))
    if (shouldRetryHeader !== null) reply.header(shouldRetryHeader, 'true')
  }
  // An empty buffer would be given a content type.
  reply.send(body.length === 0 ? undefined : body)
}

function sendProblem(reply: FastifyReply, plugin: PluginSettings, problem: Problem): void {
  const { profile, problemBaseUrl } = plugin
  reply.code(profile.statusOf(problem.code)).header('content-type', profile.contentType)
  // What is true of this moment must not be kept by a cache in between.
  reply.header('cache-control', 'no-store')
  if (problem.retryAfterMs !== undefined) reply.header('retry-after', seconds(problem.retryAfterMs))
  if (profile.shouldRetryHeader !== null)
    reply.header(profile.shouldRetryHeader, String(problems[problem.code].retry))
  // As bytes: a response schema of the route is for its own answers, and would drop members of this one.
  reply.send(Buffer.from(JSON.stringify(profile.bodyOf(problem, `${problemBaseUrl}#${problem.code}`))))
}

/** Whole seconds are all the header can say; rounded up, or the client comes back too early. */
function seconds(ms: number): string {
  return String(Math.max(1, Math.ceil(ms / 1_000)))
}
