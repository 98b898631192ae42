/** What the routes of all contenders behind Fastify take, so that all parse and check the same. */
export const RIDE_ROUTE = '/rides'

export const rideBody = {
  type: 'object',
  additionalProperties: false,
  required: ['origin', 'target', 'amount'],
  properties: {
    origin: { type: 'string', maxLength: 100 },
    target: { type: 'string', maxLength: 100 },
    amount: { type: 'integer', minimum: 1 },
  },
} as const

/** Longer than a contender waits for its turn. */
export const KEEP_ALIVE_MS = 10 * 60_000
