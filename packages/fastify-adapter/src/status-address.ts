import type { FastifyRequest } from 'fastify'
import { pathOf } from './fingerprint-request.js'

/**
 * What is put between the address of a request and its id, to ask for its status. Routes of one path may have hooks of their
 * own for each method, so each has a status of its own; that of POST, which nearly all have, is the short one.
 */
export function statusSuffix(statusPath: string, methods: readonly string[]): string {
  const names = methods.map((method) => method.toLowerCase()).join('-')
  return names === 'post' ? statusPath : `${statusPath}/${names}`
}

/** Where the status of a request is asked for, but for its id: below the address that it was sent to. */
export function statusBelow(path: string, suffix: string): string {
  let [from, to] = [0, path.length]
  while (path[to - 1] === '/') to--
  // A client would take what follows two slashes for the name of a host.
  while (path[from] === '/' && path[from + 1] === '/') from++
  return `${path.slice(from, Math.max(from, to))}${suffix}`
}

/** The id of a request in the address of its status. Not a name that a route would give to a parameter of its own. */
export const KEY_ID_PARAMETER = 'pawlKeyId'

/** What of a request says where it came in. */
type Addressed = Pick<FastifyRequest, 'originalUrl' | 'url'>

/**
 * Where a request came in: the route, and the address with the parameters that hooks decide by. Its status is told below
 * that address alone. `rewriteUrl` may make several of one address, by a header for example, so what it made counts, too.
 */
export function originOf(route: string, request: Addressed): string {
  return originFrom(route, request, asRouted)
}

/** The same of a request for a status: where the request that it asks for has to have come in. */
export function originAsked(route: string, suffix: string, request: Addressed): string {
  // The router has compared what is cut off. Every slash of it begins a segment, and the last one is the id.
  const segments = suffix.split('/').length
  return originFrom(route, request, (path) => asRouted(path).split('/').slice(0, -segments).join('/'))
}

function originFrom(route: string, { originalUrl, url }: Addressed, read: (path: string) => string): string {
  const sent = read(pathOf(originalUrl))
  return JSON.stringify([route, sent, url === originalUrl ? sent : read(pathOf(url))])
}

/** Spelled in one way for all that the router takes for the same. */
function asRouted(path: string): string {
  const trimmed = statusBelow(path, '')
  return trimmed.includes('%') ? trimmed.split('/').map(decodeSegment).join('/') : trimmed
}

/** An escaped slash is part of its segment, and an escaped percent sign begins no other escape. */
function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment).replaceAll('%', '%25').replaceAll('/', '%2F')
  } catch {
    // The router refuses it, unless `rewriteUrl` made another of it.
    return segment
  }
}
