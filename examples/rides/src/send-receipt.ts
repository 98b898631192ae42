import { respond } from '@pawl/core'
import { pipeline } from './database.js'

/**
 * The receipt of a ride, as a separate pipeline: the worker runs it once per job, however often the queue delivers that job.
 * Sending is a foreign call like any other. A mail service would take `idempotencyKey`; a file does not deduplicate, so the
 * line carries it.
 */
export const sendReceiptWith = (send: (line: string) => Promise<void>) =>
  pipeline<{ user_id: string; ride_id: string }>({ name: 'send-receipt', version: 1 })
    .local('ride_read', async ({ tx, input }) => {
      const ride = await tx
        .selectFrom('rides')
        .select(['id', 'user_id', 'amount', 'currency', 'charge_id'])
        .where('user_id', '=', input.user_id)
        .where('id', '=', input.ride_id)
        .executeTakeFirstOrThrow()
      return { ride }
    })
    .foreign('receipt_sent', {
      call: async ({ state, idempotencyKey }) => {
        await send(JSON.stringify({ receipt: idempotencyKey, ...state.ride }))
      },
    })
    .finish(() => respond(204))
