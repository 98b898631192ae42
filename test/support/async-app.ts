import { type Background, createBackground, type Engine } from '@pawl/core'
import type { FastifyInstance, InjectOptions, LightMyRequestResponse } from 'fastify'
import { onTestFinished } from 'vitest'
import { heard } from './heard.js'
import { send } from './http-requests.js'
import type { Database } from './rides.js'

/** Longer than any test: whatever happens earlier was not found by polling. */
const NEVER_MS = 3_600_000

/** What a client that does not want to wait sends. */
export const PREFER = { prefer: 'respond-async' }

/** A completer in this process that has looked once, found nothing, and never polls again. */
export async function idleCompleter(engine: Engine<Database>): Promise<void> {
  const background = completerOf(engine)
  const looked = heard('pawl:round')
  background.start()
  await looked
}

/** A completer that does nothing by itself. */
export function completerOf(engine: Engine<Database>): Background {
  const background = createBackground({ engine, completer: { pollMs: NEVER_MS }, reaper: false })
  onTestFinished(() => background.stop())
  return background
}

/** Asks as ann for the status that a 202 links to. */
export function ask(
  app: FastifyInstance,
  accepted: LightMyRequestResponse,
  more: InjectOptions = {},
): Promise<LightMyRequestResponse> {
  const { headers, ...rest } = more
  return app.inject({
    method: 'GET',
    url: String(accepted.headers['location']),
    ...rest,
    headers: { authorization: 'Bearer ann', ...headers },
  })
}

/** A ride of ann's that is enqueued. */
export function sendAsync(app: FastifyInstance, more: InjectOptions = {}): Promise<LightMyRequestResponse> {
  return send(app, { ...more, headers: { ...PREFER, ...more.headers } })
}
