import type { FastifyInstance } from 'fastify'
import type { Kysely } from 'kysely'
import type { Database } from './database.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** Whom the bearer token belongs to. */
    user: { readonly id: string } | null
  }
}

/** Before anything else: who asks? A replay is for its owner, too. */
export function authenticate(app: FastifyInstance, db: Kysely<Database>): void {
  app.decorateRequest('user', null)
  app.addHook('onRequest', async (request, reply) => {
    const [, token] = /^Bearer (\S+)$/i.exec(request.headers.authorization ?? '') ?? []
    const user =
      token === undefined
        ? undefined
        : await db.selectFrom('users').select('id').where('token', '=', token).executeTakeFirst()
    if (user === undefined) {
      return reply.code(401).header('www-authenticate', 'Bearer').send({ error: 'a bearer token is needed' })
    }
    request.user = user
    return undefined
  })
}
