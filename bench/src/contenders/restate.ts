import { once } from 'node:events'
import { createServer, type Http2Server, type ServerHttp2Session } from 'node:http2'
import type { AddressInfo } from 'node:net'
import * as restateSdk from '@restatedev/restate-sdk'
import type { Pool } from 'pg'
import {
  businessTables,
  INSERT_JOB,
  INSERT_RIDE,
  jobValues,
  type RideInput,
  rideValues,
  SET_CHARGE,
} from '../business.js'
import type { Contender, Opened } from '../contender.js'
import { openCharges, type Charges } from '../provider/charge.js'
import { startRestate } from '../restate/start-restate.js'
import { openHttpClient } from '../run/http-client.js'
import { inTransaction } from './in-transaction.js'
import { openPool, runSql } from './open-pool.js'

const SCHEMA = 'bench_restate'

/** How the ingress answers every call that went well. A handler has no say in it. */
const OK = 200

/**
 * A service whose steps the Restate server keeps in a log of its own; the key goes to the server's ingress, which keeps the
 * answer for a day. The rows are in PostgreSQL, in plain steps: a crash between a step's commit and its entry in the log
 * repeats the step, and a second ride or job is possible.
 *
 * The SDK is of version 1.14, the last whose Node.js server runs without Promise.withResolvers, which Node.js has from 22 on.
 */
export const restate: Contender = {
  name: 'restate',
  title: 'Restate',

  prepare: (databaseUrl) => runSql(databaseUrl, businessTables(SCHEMA, { withJobs: true })),

  async open({ databaseUrl, providerUrl, poolSize, providerDelayMs }): Promise<Opened> {
    const pool = openPool(databaseUrl, SCHEMA, poolSize)
    const charges = openCharges(providerUrl, providerDelayMs)
    const endpoint = await listen(
      createServer(
        restateSdk.createEndpointHandler({
          services: [ridesService(pool, charges)],
          // By default it prints two lines per request.
          logger: () => {},
        }),
      ),
    )
    const server = await startRestate()
    await server.register(endpoint.url)
    const url = `${server.ingressUrl}/rides/createRide`
    const client = openHttpClient(url, OK)
    return {
      url,
      createdStatus: OK,
      request: (key) => client.request(key),
      pause: () => server.pause(),
      resume: () => server.resume(),
      async close() {
        await client.close()
        await server.stop()
        await endpoint.close()
        charges.close()
        await pool.end()
      },
    }
  },
}

const ridesService = (pool: Pool, charges: Charges) =>
  restateSdk.service({
    name: 'rides',
    handlers: {
      async createRide(ctx: restateSdk.Context, input: RideInput) {
        const ride = await ctx.run('insertRide', async () => {
          const { rows } = await pool.query<{ id: string }>(INSERT_RIDE, rideValues(input))
          return rows[0]?.id ?? ''
        })
        // The same at every attempt.
        const idempotencyKey = ctx.rand.uuidv4()
        const charge = await ctx.run('charge', () =>
          charges.charge({ amount: input.amount, ride }, idempotencyKey),
        )
        await ctx.run('finish', () =>
          inTransaction(pool, 'READ COMMITTED', async (client) => {
            await client.query(SET_CHARGE, [charge.id, ride])
            await client.query(INSERT_JOB, jobValues(ride))
          }),
        )
        return { ride, charge: charge.id }
      },
    },
  })

async function listen(server: Http2Server): Promise<{ readonly url: string; close(): Promise<void> }> {
  const sessions = new Set<ServerHttp2Session>()
  server.on('session', (session) => {
    sessions.add(session)
    session.on('close', () => sessions.delete(session))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      for (const session of sessions) session.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
