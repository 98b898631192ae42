import { respond } from '@pawl/core'
import type { FastifyRequest, LightMyRequestResponse } from 'fastify'
import { pipeline } from './rides.js'

/** A pipeline of no phases that answers with a secret, which only the sender of the request may see. */
export const plain = pipeline<null>({ name: 'plain', version: 1 }).finish(() => respond(201, { secret: 42 }))

/** A handler that runs it. */
export const runPlain = (request: FastifyRequest) => request.pawl.run(plain, null)

/** The status of an answer, and the code of its problem where it is one. */
export function codeOf(response: LightMyRequestResponse): unknown {
  return [response.statusCode, response.json<{ code?: string }>().code]
}
