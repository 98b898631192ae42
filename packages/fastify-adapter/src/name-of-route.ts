import type { FastifyRequest } from 'fastify'

/** The route as its developer wrote it, for messages: `POST /rides/:id`. */
export function nameOfRoute({ method, routeOptions, url }: FastifyRequest): string {
  return `${method} ${routeOptions.url ?? url}`
}
