import type { FastifyRequest } from 'fastify'
import { pathOf } from './fingerprint-request.js'

/**
 * What goes between the address of a request and its id, to ask for its status. Routes with the same path may have
 * different hooks for each method, so each has its own status address; POST, which nearly all have, gets the short one.
 */
export function statusSuffix(statusPath: string, methods: readonly string[]): string {
  const names = methods.map((method) => method.toLowerCase()).join('-')
  return names === 'post' ? statusPath : `${statusPath}/${names}`
}

/** Where to ask for the status of a request, without its id: below the address that the request was sent to. */
export function statusBelow(path: string, suffix: string): string {
  let [from, to] = [0, path.length]
  while (path[to - 1] === '/') to--
  // A client would take what follows two slashes for a host name.
  while (path[from] === '/' && path[from + 1] === '/') from++
  return `${path.slice(from, Math.max(from, to))}${suffix}`
}

/**
 * The parameter for a request's id in the address of its status. No route would give this name to a parameter of its own.
 */
export const KEY_ID_PARAMETER = 'pawlKeyId'

/** The parts of a request that say where it came in. */
type Addressed = Pick<FastifyRequest, 'originalUrl' | 'url'>

/**
 * Where a request came in: the route, and the address with the parameters that hooks decide by. Its status is reported
 * only below that address. `rewriteUrl` may turn one address into several, by a header for example, so the rewritten
 * address counts, too.
 */
export function originOf(route: string, request: Addressed): string {
  return originFrom(route, request, asRouted)
}

/** The same for a request for a status: where the request that it asks about must have come in. */
export function originAsked(route: string, suffix: string, request: Addressed): string {
  // The router has already matched what is cut off. Each slash in it begins a segment, and the last segment is the id.
  const segments = suffix.split('/').length
  return originFrom(route, request, (path) => asRouted(path).split('/').slice(0, -segments).join('/'))
}

function originFrom(route: string, { originalUrl, url }: Addressed, read: (path: string) => string): string {
  const sent = read(pathOf(originalUrl))
  return JSON.stringify([route, sent, url === originalUrl ? sent : read(pathOf(url))])
}

/** One spelling for all paths that the router considers the same. */
function asRouted(path: string): string {
  const trimmed = statusBelow(path, '')
  return trimmed.includes('%') ? trimmed.split('/').map(decodeSegment).join('/') : trimmed
}

/** An escaped slash is part of its segment, and an escaped percent sign does not begin another escape. */
function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment).replaceAll('%', '%25').replaceAll('/', '%2F')
  } catch {
    // The router refuses it, unless `rewriteUrl` turned it into another address.
    return segment
  }
}
