import type { KeyReport, RecordedPipeline } from '@pawl/core'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { DuplicatesAnswer, FindAnswer, RequestReport, Session } from '../api.js'
import type { ConsoleContext } from '../console-context.js'
import { ConsoleError } from '../console-error.js'
import { csrfToken } from '../csrf.js'
import {
  DEFAULT_DUPLICATES_MINUTES,
  MAX_DUPLICATES_MINUTES,
  MAX_SEARCH_LENGTH,
  TOP_SCOPES,
} from '../limits.js'
import { invalid, readQuery, wholeNumber } from '../parse-query.js'
import { readVersion } from '../read-version.js'
import { listed, shownIntervention, shownJob, shownKey } from '../views/shown-key.js'

const MINUTE_MS = 60_000

/** Asks the database nothing: the pages come up even while it is away. */
export function session(console: ConsoleContext, request: FastifyRequest, reply: FastifyReply): Session {
  readQuery(request.query, [])
  const { schema, traceUrl } = console.settings
  return {
    ...console.userOf(request),
    csrf: csrfToken(request, reply),
    schema,
    traceUrl,
    version: readVersion(),
    now: new Date(),
  }
}

export async function flow(console: ConsoleContext, request: FastifyRequest) {
  readQuery(request.query, [])
  return console.live.current()
}

export async function find(console: ConsoleContext, request: FastifyRequest): Promise<FindAnswer> {
  const { q = '' } = readQuery(request.query, ['q'])
  const text = q.trim()
  if (text === '') return { found: [], lookedBackTo: null }
  if (text.length > MAX_SEARCH_LENGTH) throw invalid(`q has more than ${MAX_SEARCH_LENGTH} characters.`)
  const { found, lookedBackTo } = await console.reader.find(text)
  return {
    found: found.map((each) => {
      switch (each.type) {
        case 'key':
          return { kind: 'key', key: listed(each.key) }
        case 'effect':
          return { kind: 'effect', effect: each.effect }
        case 'scope':
          return { kind: 'scope', scope: each.scope }
      }
    }),
    lookedBackTo,
  }
}

/** One request, without what clients and providers sent. */
export async function showRequest(console: ConsoleContext, request: FastifyRequest): Promise<RequestReport> {
  readQuery(request.query, [])
  const keyId = keyIdOf(request)
  const report = await console.reader.show({ keyId })
  return completeReport(console, report ?? noSuchKey(keyId), false)
}

/** What is known of a key, with what would happen next. */
export async function completeReport(
  console: ConsoleContext,
  { key, effects, jobs, interventions }: KeyReport,
  reveal: boolean,
): Promise<RequestReport> {
  const { keyId, pipeline, version } = key
  const [next, recorded, now] = await Promise.all([
    console.reader.next({ keyId }),
    console.reader.pipelines(),
    console.now(),
  ])
  return {
    key: shownKey(key, reveal),
    effects,
    jobs: jobs.map((job) => shownJob(job, reveal)),
    interventions: interventions.map((intervention) => shownIntervention(intervention, reveal)),
    next,
    pipeline: latest(recorded.filter((each) => each.name === pipeline && each.version === version)),
    now,
  }
}

/** A version may have been recorded with several definitions, as one is changed: the one in use now. */
function latest(recorded: readonly RecordedPipeline[]): RecordedPipeline | null {
  return recorded.toSorted((a, b) => a.recordedAt.getTime() - b.recordedAt.getTime()).at(-1) ?? null
}

export function keyIdOf({ params }: FastifyRequest): string {
  return (params as { readonly id: string }).id
}

export function noSuchKey(keyId: string): never {
  throw new ConsoleError(
    'not_found',
    `There is no key ${keyId.slice(0, 80)}. It may have expired, or been erased.`,
  )
}

export async function duplicates(
  console: ConsoleContext,
  request: FastifyRequest,
): Promise<DuplicatesAnswer> {
  const query = readQuery(request.query, ['minutes'])
  const minutes = wholeNumber(query, 'minutes', 1, MAX_DUPLICATES_MINUTES) ?? DEFAULT_DUPLICATES_MINUTES
  // By the database's clock, which the minutes were counted by; the one that is not over yet is included.
  const now = (await console.now()).getTime()
  const to = new Date(Math.floor(now / MINUTE_MS + 1) * MINUTE_MS)
  const from = new Date(to.getTime() - minutes * MINUTE_MS)
  return { from, to, scopes: await console.reader.duplicates({ from, to, top: TOP_SCOPES }) }
}
