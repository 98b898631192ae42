import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'

/** Whether an address is one that only this machine can reach. */
export function isLoopback(address: string | undefined): boolean {
  if (address === undefined) return false
  const plain = address.replace(/^::ffff:/i, '')
  return (isIP(plain) === 4 && plain.startsWith('127.')) || plain === '::1'
}

/** Whether a `Host` header names this machine: a page of another site can make its own name lead here. */
export function isLoopbackHost(host: string | undefined): boolean {
  if (host === undefined) return false
  const name = host.replace(/:\d+$/, '').toLowerCase()
  return name === 'localhost' || name === '[::1]' || (isIP(name) === 4 && name.startsWith('127.'))
}

/** What proxies add, besides names that begin with `x-forwarded`. Behind one, everybody comes from loopback. */
const FORWARDED = [
  'forwarded',
  'x-real-ip',
  'via',
  'x-client-ip',
  'true-client-ip',
  'cf-connecting-ip',
  'cdn-loop',
]

/** Whether a proxy sent it: by what it adds, or by the old version of HTTP that some speak, and no browser. */
function isForwarded({ raw, headers }: FastifyRequest): boolean {
  return (
    raw.httpVersion === '1.0' ||
    FORWARDED.some((name) => headers[name] !== undefined) ||
    Object.keys(headers).some((name) => name.startsWith('x-forwarded'))
  )
}

/** Whether the page that asks, if one does, is of this machine: a proxy that changes `Host` leaves that as it is. */
function isFromLoopback({ headers: { origin } }: FastifyRequest): boolean {
  return origin === undefined || (URL.canParse(origin) && isLoopbackHost(new URL(origin).host))
}

/** Whether a request was sent on this machine, to this machine, with no proxy in between that can be told. */
export function isLocal(request: FastifyRequest): boolean {
  const { raw, headers } = request
  return (
    isLoopback(raw.socket.remoteAddress) &&
    isLoopbackHost(headers.host) &&
    isFromLoopback(request) &&
    !isForwarded(request)
  )
}
