import type { FastifyInstance } from 'fastify'
import type { Kysely } from 'kysely'
import type { Database } from './database.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** Whom the bearer token belongs to. */
    user: { readonly id: string } | null
  }
}

/** A failover takes some seconds; clients that wait for one each find out soon. */
const RETRY_AFTER_S = 1

/** Before anything else: who asks? A replay is for its owner, too. */
export function authenticate(app: FastifyInstance, db: Kysely<Database>): void {
  app.decorateRequest('user', null)
  app.addHook('onRequest', async (request, reply) => {
    const [, token] = /^Bearer (\S+)$/i.exec(request.headers.authorization ?? '') ?? []
    let user: { readonly id: string } | undefined
    try {
      if (token !== undefined)
        user = await db.selectFrom('users').select('id').where('token', '=', token).executeTakeFirst()
    } catch (error) {
      // Nobody knows who asks, so nothing is done; the same request may be sent again.
      request.log.error({ err: error }, 'the database did not say whose token it is')
      return reply
        .code(503)
        .header('retry-after', String(RETRY_AFTER_S))
        .send({ error: 'not available; try again' })
    }
    if (user === undefined) {
      return reply.code(401).header('www-authenticate', 'Bearer').send({ error: 'a bearer token is needed' })
    }
    request.user = user
    return undefined
  })
}
