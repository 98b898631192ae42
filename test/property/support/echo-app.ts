import { type JsonValue, respond } from '@pawl/core'
import { listen, type Received, send } from '../../support/http-client.js'
import { BOUND, guarded, IS_GUARDED } from '../../support/guards.js'
import { type RideApp, rideApp } from '../../support/ride-app.js'
import { createEngine, pipeline } from '../../support/rides.js'

/** What guards requests before they get to the engine. */
const PLUGIN = IS_GUARDED ? { bindTo: () => BOUND.bindTo ?? null, waitersPerScope: 2 } : {}

/** A body on its way to the app, under one key. */
interface Sent {
  readonly key: string
  readonly type: string
  readonly body: string | Uint8Array
}

interface EchoApp {
  readonly ask: (sent: Sent) => Promise<Received>
  readonly log: RideApp['log']
  /** How often the pipeline ran to its end. */
  readonly runs: () => number
  readonly freshKey: () => string
}

/**
 * An app on a real port that sends back what it was sent, after it went through the database as the pipeline's input. It
 * accepts JSON, text and bytes.
 */
export async function echoApp(): Promise<EchoApp> {
  let runs = 0
  let keys = 0
  const echo = pipeline({ name: 'echo', version: 1 }).finish(({ input }) => {
    runs++
    return respond<JsonValue>(201, input)
  })
  const { app, log } = await rideApp({
    pipelines: [echo],
    engineOf: (options) => createEngine(guarded(options)),
    plugin: PLUGIN,
    before: (server) => {
      server.addContentTypeParser('application/octet-stream', { parseAs: 'buffer' }, asItIs)
    },
    routes: (server) =>
      void server.post('/echo', { idempotency: true }, ({ body, pawl }) =>
        pawl.run(echo, Buffer.isBuffer(body) ? { base64: body.toString('base64') } : (body as JsonValue)),
      ),
  })
  const url = await listen(app)
  return {
    ask: ({ key, type, body }) =>
      send(url, {
        path: '/echo',
        body,
        headers: {
          'idempotency-key': key,
          'content-type': type,
          'content-length': String(Buffer.byteLength(body)),
        },
      }),
    log,
    runs: () => runs,
    freshKey: () => `key-${++keys}`,
  }
}

async function asItIs(_: unknown, body: Buffer): Promise<Buffer> {
  return body
}
