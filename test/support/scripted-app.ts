import { type Directive, type Pipeline, type PipelineSettings, respond } from '@pawl/core'
import { type RideApp, rideApp, type RideAppOptions } from './ride-app.js'
import { type Database, pipeline } from './rides.js'

export type ScriptedAnswer = () => Directive | Promise<Directive>

/** Writes a row, then returns one answer after the other, and 201 in the end. */
export function scripted(
  answers: ScriptedAnswer[],
  settings: PipelineSettings = {},
): Pipeline<Database, null> {
  return pipeline<null>({ name: 'scripted', version: 1, ...settings })
    .local('written', async ({ tx }) => {
      await tx.insertInto('audit').values({ what: 'written' }).execute()
    })
    .finish(() => (answers.shift() ?? (() => respond(201, { done: true })))())
}

/** A ride app with this pipeline on `POST /target`. */
export function appOf(target: Pipeline<Database, null>, options: RideAppOptions = {}): Promise<RideApp> {
  return rideApp({
    pipelines: [target],
    routes: (app) =>
      void app.post('/target', { idempotency: true }, (request) => request.pawl.run(target, null)),
    ...options,
  })
}

export const TARGET = { url: '/target' }

/** What the adapter logged about requests, at one level of pino's. */
export function linesOf(log: RideApp['log'], level: number): unknown[] {
  return log.filter((line) => line['level'] === level).map((line) => line['idempotency'])
}
