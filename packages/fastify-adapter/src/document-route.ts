import type { FastifySchema, RouteOptions } from 'fastify'
import { MAX_KEY_LENGTH } from './limits.js'
import { methodsOf } from './mark-route.js'
import type { PluginSettings } from './plugin-settings.js'
import type { RouteSettings } from './route-settings.js'
import { isKeyRequired } from './handled-request.js'
import { type ProblemCode, problems } from './problems.js'
import { KEY_ID_PARAMETER } from './status-address.js'

/** What every marked route can answer besides its own responses. */
const DOCUMENTED: readonly ProblemCode[] = [
  'request_in_progress',
  'idempotency_key_reused',
  'temporarily_unavailable',
]

const PROBLEM = {
  type: 'object',
  properties: {
    type: { type: 'string' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string' },
    code: { type: 'string' },
    instance: { type: 'string' },
    errors: {
      type: 'array',
      items: { type: 'object', properties: { detail: { type: 'string' }, path: { type: 'string' } } },
    },
  },
}

const STRIPE_PROBLEM = {
  type: 'object',
  properties: {
    error: {
      type: 'object',
      properties: { type: { type: 'string' }, code: { type: 'string' }, message: { type: 'string' } },
    },
  },
}

const ACCEPTED = {
  202: {
    description: 'The request is being processed: ask again at its location',
    content: {
      'application/json': {
        schema: {
          type: 'object',
          properties: { status: { type: 'string' }, location: { type: 'string' } },
        },
      },
    },
  },
}

/** What @fastify/swagger says about a route without responses, and no longer says once we have added ours. */
const SUCCESS = { '2xx': { type: 'null', description: 'Default Response' } }

/**
 * Adds the header and the problems to the schema that @fastify/swagger will read. Call it when the app is ready: Fastify
 * has compiled the route's own schema by then, so what is added here validates and serialises nothing.
 */
export function documentRoute(route: RouteOptions, settings: RouteSettings): void {
  const schema: FastifySchema = route.schema ?? {}
  if (isReference(schema.headers) || isReference(schema.response)) return
  if (Object.values(schema).some(isOfOtherLibrary)) return
  route.schema = {
    ...schema,
    headers: withHeader(schema.headers as ObjectSchema | undefined, route, settings),
    response: { ...responsesOf(route, settings), ...(schema.response ?? SUCCESS) },
  }
}

/** The same for the resource that reports what became of a request. */
export function documentStatus(route: RouteOptions, plugin: PluginSettings): void {
  if (isReference(route.schema?.params) || isOfOtherLibrary(route.schema?.params)) return
  const schema: FastifySchema & { summary: string } = {
    ...route.schema,
    summary: 'What became of a request',
    params: withKeyId(route.schema?.params as ObjectSchema | undefined),
    response: {
      '2xx': { type: 'null', description: 'The response to the request' },
      ...ACCEPTED,
      ...problemResponses(plugin, ['request_not_found', 'request_stuck', 'store_unavailable']),
    },
  }
  route.schema = schema
}

interface ObjectSchema {
  readonly properties?: object
  readonly required?: readonly string[]
}

function withKeyId(params: ObjectSchema = {}): object {
  return {
    type: 'object',
    properties: {
      ...params.properties,
      [KEY_ID_PARAMETER]: { type: 'string', description: 'As in the Location header of the 202 response.' },
    },
    required: [...(params.required ?? []), KEY_ID_PARAMETER],
  }
}

const PREFER = {
  type: 'string',
  description:
    'respond-async: answer 202 at once, with the location of the status. wait=10: first wait up to 10 s for the response.',
}

const SENT_AT = {
  type: 'string',
  description:
    'When the request was first sent, the same with every retry: an HTTP date, or seconds since 1970 after an @.',
}

function withHeader(headers: ObjectSchema = {}, route: RouteOptions, settings: RouteSettings): object {
  const { header } = settings.plugin
  const { sentAt } = settings
  const key = {
    type: 'string',
    minLength: 1,
    maxLength: MAX_KEY_LENGTH,
    description: 'Identifies the request: a retry with the same key gets the response to the first.',
  }
  return {
    type: 'object',
    ...headers,
    properties: {
      ...headers.properties,
      [header]: key,
      ...(sentAt !== null && { [sentAt.header]: SENT_AT }),
      ...(settings.respondAsync === 'preferred' && { prefer: PREFER }),
    },
    required: [
      ...(headers.required ?? []),
      ...(needsKey(route, settings) ? [header] : []),
      ...(sentAt?.required === true && needsKey(route, settings) ? [sentAt.header] : []),
    ],
  }
}

function needsKey(route: RouteOptions, settings: RouteSettings): boolean {
  return settings.required ?? methodsOf(route).every(isKeyRequired)
}

function responsesOf(route: RouteOptions, settings: RouteSettings): Record<string, object> {
  const wrongKey = needsKey(route, settings) ? 'idempotency_key_missing' : 'idempotency_key_invalid'
  const responses = problemResponses(settings.plugin, [wrongKey, ...DOCUMENTED])
  return settings.respondAsync === 'never' ? responses : { ...ACCEPTED, ...responses }
}

function problemResponses(
  { profile }: PluginSettings,
  codes: readonly ProblemCode[],
): Record<string, object> {
  const responses: Record<string, { description: string; content: object }> = {}
  for (const code of codes) {
    const status = String(profile.statusOf(code))
    const { title } = problems[code]
    const said = responses[status]?.description
    const [contentType = profile.contentType] = profile.contentType.split(';')
    const schema = profile.echoesKey ? STRIPE_PROBLEM : PROBLEM
    responses[status] = {
      description: said === undefined ? title : `${said}; ${title}`,
      content: { [contentType]: { schema } },
    }
  }
  return responses
}

/** We do not know here what it refers to, so nothing can be added to it. */
function isReference(part: unknown): boolean {
  return typeof part === 'object' && part !== null && '$ref' in part
}

/**
 * A transform of the user turns schemas of other libraries into JSON Schema. It expects every part of a schema to be such
 * a schema, and would not know what to do with ours.
 */
function isOfOtherLibrary(part: unknown): boolean {
  if (typeof part !== 'object' || part === null) return typeof part === 'function'
  return [part, ...Object.values(part)].some(isStandardSchema)
}

/** Some libraries, such as ArkType, make schemas that are functions. */
function isStandardSchema(value: unknown): boolean {
  return (typeof value === 'object' || typeof value === 'function') && value !== null && '~standard' in value
}
