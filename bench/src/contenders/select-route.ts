import { randomUUID } from 'node:crypto'
import Fastify from 'fastify'
import { businessTables, createdAnswer } from '../business.js'
import type { Contender, Opened } from '../contender.js'
import { listenForRides } from './listen-for-rides.js'
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

/** Not a contender for fresh requests, but the least that a route can do to look up its answer. Replays are compared with it. */
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
    return {
      ...(await listenForRides(app, () => pool.end())),
      controls: {
        async insert(keys) {
          const { status, body } = createdAnswer(randomUUID(), `ch_${randomUUID()}`)
          await pool.query(INSERT_ANSWERS, [keys, status, body])
        },
      },
    }
  },
}
