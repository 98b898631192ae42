import { PawlError } from '@pawl/core'
import type { FastifyInstance } from 'fastify'
import { isKeyRequired } from './handled-request.js'
import type { RouteMark } from './route-settings.js'

/** How a route that changes state treats idempotency keys. */
export interface AuditedRoute {
  readonly method: string
  readonly url: string
  /**
   * `required`: no key, no request. `optional`: a key is respected, and a request without one runs anyway. `exempt`:
   * marked as needing none. `none`: nothing protects it against a retry. `unknown`: it was declared before the plugin was
   * registered, so its `idempotency` option was not seen.
   */
  readonly key: 'required' | 'optional' | 'exempt' | 'none' | 'unknown'
  /** Why it is exempt, where a reason is given. */
  readonly reason: string | null
}

/** Methods that only read are not listed; the application's own methods are. */
const SAFE_METHODS = ['GET', 'HEAD', 'OPTIONS', 'TRACE', 'QUERY', 'SEARCH', 'PROPFIND', 'REPORT']

/** What an audit says about a route; `mark` is null where it has no `idempotency` option. */
export function auditRoute(methods: readonly string[], url: string, mark: RouteMark | null): AuditedRoute[] {
  return methods
    .filter((method) => !SAFE_METHODS.includes(method))
    .map((method) => ({
      method,
      url,
      key: keyOf(method, mark),
      reason: mark?.type === 'exempt' ? mark.reason : null,
    }))
}

function keyOf(method: string, mark: RouteMark | null): AuditedRoute['key'] {
  if (mark === null) return 'none'
  if (mark.type === 'exempt') return 'exempt'
  return (mark.settings.required ?? isKeyRequired(method)) ? 'required' : 'optional'
}

/** Routes that were declared before the plugin was there to see them, read from Fastify's own drawing of its routes. */
export function routesBefore(app: FastifyInstance): AuditedRoute[] {
  return app.supportedMethods
    .filter((method) => !SAFE_METHODS.includes(method))
    .flatMap((method) =>
      readDrawing(app.printRoutes({ method: method as 'POST' })).map(
        (url) => ({ method, url, key: 'unknown', reason: null }) as const,
      ),
    )
}

/** What the drawing says where no path begins with a slash alone. */
const EMPTY_ROOT = '(empty root node)'

/** Each line of the tree is a part of a path, indented by four characters for each part before it. */
function readDrawing(drawing: string): string[] {
  const path: string[] = []
  const urls: string[] = []
  for (const line of drawing.split('\n')) {
    const branch = line.indexOf('── ')
    if (branch === -1) continue
    const text = line.slice(branch + 3)
    const [, part] = /^(.*?) \([A-Z]/.exec(text) ?? []
    path.splice((branch - 1) / 4, path.length, text === EMPTY_ROOT ? '' : (part ?? text))
    if (part !== undefined) urls.push(path.join(''))
  }
  return urls
}

/** What has to be fixed before money goes through the application; null if there is nothing. */
export function unprotected(routes: readonly AuditedRoute[]): PawlError | null {
  const listOf = (wanted: AuditedRoute['key']) =>
    routes
      .filter(({ method, key }) => isKeyRequired(method) && key === wanted)
      .map(({ method, url }) => `${method} ${url}`)
      .join(', ')
  const [open, early] = [listOf('none'), listOf('unknown')]
  const sentences = [
    open === ''
      ? ''
      : `These routes take no idempotency key, so a retry repeats what they do: ${open}. Give each the idempotency ` +
        "option, or say why it needs none with idempotency: { exempt: '…' }.",
    early === ''
      ? ''
      : `These routes were declared before the plugin, so it does not protect them: ${early}. Move them after ` +
        'await app.register(fastifyPawl, …).',
  ].filter((sentence) => sentence !== '')
  return sentences.length === 0 ? null : new PawlError('PAWL_UNPROTECTED_ROUTE', sentences.join(' '))
}
