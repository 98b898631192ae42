import { randomUUID } from 'node:crypto'
import Fastify from 'fastify'
import { businessTables, createdAnswer } from '../business.js'
import type { Contender, Opened } from '../contender.js'
import { openHttpClient } from '../run/http-client.js'
import { openPool, runSql } from './open-pool.js'
import { KEEP_ALIVE_MS, RIDE_ROUTE, rideBody } from './ride-route.js'

const SCHEMA = 'bench_select_route'

const ANSWERS = `
CREATE TABLE ${SCHEMA}.answers (
  key    text PRIMARY KEY,
  status integer NOT NULL,
  body   text NOT NULL
);`

/** Answers as large as those of a ride. */
const INSERT_ANSWERS =
  'INSERT INTO answers (key, status, body) SELECT key, $2, $3 FROM unnest($1::text[]) AS key ON CONFLICT DO NOTHING'
const FIND_ANSWER = 'SELECT status, body FROM answers WHERE key = $1'

/** No contender of fresh requests: the least that a route can do which looks its answer up. What a replay is held against. */
export const selectRoute: Contender = {
  name: 'select-route',
  title: 'Fastify route with one SELECT by primary key',

  prepare: (databaseUrl) => runSql(databaseUrl, `${businessTables(SCHEMA, { withJobs: false })}${ANSWERS}`),

  async open({ databaseUrl, poolSize }): Promise<Opened> {
    const pool = openPool(databaseUrl, SCHEMA, poolSize)
    const app = Fastify({ keepAliveTimeout: KEEP_ALIVE_MS })
    app.post(RIDE_ROUTE, { schema: { body: rideBody } }, async (request, reply) => {
      const { rows } = await pool.query<{ status: number; body: string }>(FIND_ANSWER, [
        request.headers['idempotency-key'],
      ])
      const [answer] = rows
      if (answer === undefined) return reply.code(404).send({ error: 'no such key' })
      return reply.code(answer.status).type('application/json; charset=utf-8').send(answer.body)
    })
    const url = `${await app.listen({ host: '127.0.0.1', port: 0 })}${RIDE_ROUTE}`
    const client = openHttpClient(url)
    return {
      url,
      request: (key) => client.request(key),
      controls: {
        async insert(keys) {
          const { status, body } = createdAnswer(randomUUID(), `ch_${randomUUID()}`)
          await pool.query(INSERT_ANSWERS, [keys, status, body])
        },
      },
      async close() {
        await client.close()
        await app.close()
        await pool.end()
      },
    }
  },
}
