import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Asset, Assets } from '../assets.js'
import { ConsoleError } from '../console-error.js'

/** Deeper than any page is. */
const MAX_DEPTH = 4

/** A file of the pages by its exact name, or the page itself for the address of one of its views. */
export function servePage(
  assets: Assets,
  prefix: string,
  request: FastifyRequest,
  reply: FastifyReply,
): unknown {
  const [path = ''] = (request.raw.url ?? '').split('?')
  // From the address as it was sent: a part of it may contain an encoded slash. Parts are counted, because those of the prefix may be
  // parameters, or be written in another way.
  const parts = path.split('/').slice(1 + prefix.split('/').filter((part) => part !== '').length)
  if (parts.length === 0) {
    // Relative, because a proxy may know the console by another path.
    const last = path.split('/').at(-1) ?? ''
    return reply.code(308).header('location', `${last}/`).send()
  }
  const name = parts.join('/')
  const file = assets.file(name)
  if (file !== null) return send(reply, file)
  const isPage = parts.length <= MAX_DEPTH && !(parts.at(-1) ?? '').includes('.') && parts[0] !== 'api'
  if (!isPage) throw new ConsoleError('not_found', 'There is no such page.')
  return send(reply, assets.page(parts.length - 1))
}

function send(reply: FastifyReply, { type, body }: Asset): unknown {
  return reply.type(type).send(body)
}
