import { createBackground, type Engine, respond, retryLater } from '@pawl/core'
import { dieAt } from '../support/die-at.js'
import { createEngine, type Database, pipeline } from '../support/rides.js'
import type { TestDatabase } from '../support/test-database.js'

/** What clients sent and received: none of it may reach a terminal. */
export const SECRETS = {
  input: 'input-4242',
  state: 'state-4242',
  payload: 'payload-4242',
  header: 'header-4242',
  body: 'body-4242',
} as const

interface Order {
  readonly card: string
}

export const ORDER: Order = { card: SECRETS.input }

/** Two phases, a call, a job, and an answer that has all of the secrets. */
export const placeOrder = pipeline<Order>({ name: 'place-order', version: 2 })
  .local('order_placed', () => ({ token: SECRETS.state }))
  .foreign('paid', {
    call: async () => ({ id: 'ch_1' }),
    settle: ({ result }) => ({ charge: result.id }),
    reference: (result) => result.id,
  })
  .local('gift_wrapped', () => undefined, { when: () => false })
  .finish(async ({ stage }) => {
    await stage('send_receipt', { address: SECRETS.payload })
    return respond(201, { number: SECRETS.body }, { headers: { location: SECRETS.header } })
  })

/** What is wrong with the next run of `import-order`; nothing once it is fixed. */
const faults = new Map<TestDatabase, string>()

/** Throws as long as it is broken; stuck at once. */
export const importOrderOn = (database: TestDatabase) =>
  pipeline<Order>({ name: 'import-order', version: 1, maxAttempts: 1 })
    .local('order_read', () => ({ token: SECRETS.state }))
    .local('order_imported', () => {
      const fault = faults.get(database)
      if (fault !== undefined) throw new TypeError(fault)
    })
    .finish(() => respond(201, { number: SECRETS.body }))

export function breakImport(database: TestDatabase, fault: string): void {
  faults.set(database, fault)
}

export function mendImport(database: TestDatabase): void {
  faults.delete(database)
}

/** A call that must not be repeated, and is always cut off. */
export const sendParcel = pipeline<Order>({ name: 'send-parcel', version: 1 })
  .foreign('parcel_sent', {
    guarantee: 'at_most_once',
    call: async (): Promise<{ tracking: string }> => {
      throw new Error('cut off')
    },
    settle: ({ result }) => ({ tracking: result.tracking }),
    reference: (result) => result.tracking,
  })
  .finish(({ state }) => respond(200, { tracking: state.tracking }))

/** A provider that asks for patience. */
const askPatiently = pipeline<Order>({ name: 'ask-patiently', version: 1 })
  .local('asked', () => retryLater(new Error('come back tomorrow'), { afterMs: 86_400_000 }))
  .finish(() => respond(204))

export function engineOn(database: TestDatabase): Engine<Database> {
  const pipelines = [placeOrder, importOrderOn(database), sendParcel, askPatiently]
  return createEngine({ pool: database.pool(), schema: database.schema, pipelines })
}

/** Keys in every condition, made by the engine itself; the scope is always `shop → web`. */
export async function fill(database: TestDatabase): Promise<void> {
  const scope = 'shop → web'
  const importOrder = importOrderOn(database)
  const pipelines = [placeOrder, importOrder, sendParcel, askPatiently]
  const engine = createEngine({ pool: database.pool(), schema: database.schema, pipelines })
  breakImport(database, 'cannot read properties of undefined')
  await engine.execute(placeOrder, { scope, key: 'done', input: ORDER })
  await buryJobs(engine, 'mailbox is full')
  while ((await engine.execute(importOrder, { scope, key: 'poison', input: ORDER })).type !== 'stuck');
  await engine.execute(sendParcel, { scope, key: 'in doubt', input: ORDER })
  await engine.execute(askPatiently, { scope, key: 'resting', input: ORDER })
  await engine.close()
  await dieAt(database, { pipelines }, 'paid/call#1:after', (doomed) =>
    doomed.execute(placeOrder, { scope, key: 'left behind', input: ORDER }),
  )
}

/** Has every job that waits refused for good. */
export async function buryJobs(engine: Engine<Database>, why: string): Promise<void> {
  const sink = {
    deliver: (jobs: readonly unknown[]) =>
      Promise.resolve(jobs.map(() => ({ type: 'failed', error: new Error(why), dead: true }) as const)),
  }
  const background = createBackground({ engine, completer: false, reaper: false, relay: { sink } })
  await background.runOnce()
}
