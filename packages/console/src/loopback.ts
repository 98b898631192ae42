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

/** What proxies add. Behind one, everybody comes from loopback. */
const FORWARDED = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'via']

/** Whether a request was sent on this machine, to this machine, with no proxy in between that says so. */
export function isLocal({ raw, headers }: FastifyRequest): boolean {
  return (
    isLoopback(raw.socket.remoteAddress) &&
    isLoopbackHost(headers.host) &&
    FORWARDED.every((name) => headers[name] === undefined)
  )
}
