import type { FastifyInstance } from 'fastify'
import type { Kysely } from 'kysely'
import type { Database } from './database.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** The rider whom the bearer token belongs to. */
    user: { readonly id: string } | null
  }
}

/** A failover takes a few seconds; clients that retry every second notice soon that it is over. */
const RETRY_AFTER_S = 1

/** Runs before everything else, because a replay, too, is only for the owner of the key. */
export function authenticate(app: FastifyInstance, db: Kysely<Database>): void {
  app.decorateRequest('user', null)
  app.addHook('onRequest', async (request, reply) => {
    const [, token] = /^Bearer (\S+)$/i.exec(request.headers.authorization ?? '') ?? []
    let user: { readonly id: string } | undefined
    try {
      if (token !== undefined)
        user = await db.selectFrom('users').select('id').where('token', '=', token).executeTakeFirst()
    } catch (error) {
      // We do not know who is asking, so we do nothing; the client may send the same request again.
      request.log.error({ err: error }, 'the database could not say whose token it is')
      return reply
        .code(503)
        .header('retry-after', String(RETRY_AFTER_S))
        .send({ error: 'not available; try again' })
    }
    if (user === undefined) {
      return reply
        .code(401)
        .header('www-authenticate', 'Bearer')
        .send({ error: 'a bearer token is required' })
    }
    request.user = user
    return undefined
  })
}
