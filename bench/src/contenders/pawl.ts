import { setTimeout as delay } from 'node:timers/promises'
import {
  createBackground,
  type Engine,
  type EngineOptions,
  migrate,
  type Outcome,
  type PipelineSettings,
  type ReaperOptions,
  pawl as pawlOn,
  respond,
  retryLater,
} from '@pawl/core'
import pg from 'pg'
import {
  businessTables,
  CONFLICT,
  GONE,
  CREATED,
  MISMATCH,
  RECEIPT_JOB,
  RIDE,
  rideInput,
  type RideInput,
} from '../business.js'
import type { Answer, Contender, ContenderOptions, Opened } from '../contender.js'
import { openCharges, type Charges } from '../provider/charge.js'
import { openPool, runSql } from './open-pool.js'
import type { Database } from './database.js'

const { pipeline, createEngine } = pawlOn<Database>()

/** started → ride_created → charge_created → finished, as one usually writes it. */
const plainRide = (charges: Charges) =>
  pipeline<RideInput>({ name: 'create-ride', version: 1 })
    .local('ride_created', async ({ tx, input, scope }) => {
      const ride = await tx
        .insertInto('rides')
        .values({ ...input, scope })
        .returning('id')
        .executeTakeFirstOrThrow()
      return { ride: ride.id }
    })

    .foreign('charge_created', {
      call: ({ input, state, idempotencyKey, signal }) =>
        charges.charge({ amount: input.amount, ride: state.ride }, idempotencyKey, signal),
      settle: async ({ tx, state, result }) => {
        await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.ride).execute()
        return { charge: result.id }
      },
      reference: (result) => result.id,
      onError: ({ error }) => retryLater(error),
    })

    .finish(async ({ state, stage }) => {
      await stage(RECEIPT_JOB, { ride: state.ride })
      return respond(CREATED, { ride: state.ride, charge: state.charge })
    })

/** What may be different about it. */
export interface Way {
  readonly ride?: typeof plainRide
  readonly settings?: PipelineSettings
  readonly layout?: 'plain' | 'partitioned'
  /** Options of the engine that are off by default. */
  readonly guards?: Pick<EngineOptions<Database>, 'limits' | 'protect' | 'hashSecret' | 'cache'>
  /** Who watches the engine; returns what ends that. Default: nobody. */
  readonly watch?: (engine: Engine<Database>) => () => Promise<void>
  /** The scope of a request with this key. Default: the same for all. */
  readonly scopeOf?: (key: string) => string
}

/** An engine on a pool of its own, with the pipeline that it runs. */
export function openEngine(schema: string, options: ContenderOptions, way: Way = {}) {
  const { ride = plainRide, settings = {}, guards = {} } = way
  const pool = openPool(options.databaseUrl, schema, options.poolSize)
  const charges = openCharges(options.providerUrl, options.providerDelayMs)
  const createRide = ride(charges)
  const engine = createEngine({
    pool,
    pipelines: [createRide],
    schema,
    preparedStatements: true,
    preparedQueries: true,
    defaults: settings,
    ...guards,
  })
  const stopWatching = way.watch?.(engine)
  return {
    engine,
    createRide,
    async close(): Promise<void> {
      await engine.close()
      await stopWatching?.()
      charges.close()
      await pool.end()
    },
  }
}

/** Makes the business tables and Pawl's, in one schema. */
export async function prepareSchema(
  databaseUrl: string,
  schema: string,
  layout: Way['layout'] = 'plain',
): Promise<void> {
  await runSql(databaseUrl, businessTables(schema, { withJobs: false }))
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 1 })
  try {
    await migrate(pool, { schema, layout })
  } finally {
    await pool.end()
  }
}

/** The pipeline through `engine.execute`, in a schema of its own. */
export function pawlIn(schema: string, name: string, title: string, way: Way = {}): Contender {
  const { layout, scopeOf = () => RIDE.scope } = way
  return {
    name,
    title,
    prepare: (databaseUrl) => prepareSchema(databaseUrl, schema, layout),
    async open(options): Promise<Opened> {
      const opened = openEngine(schema, options, way)
      const { engine, createRide } = opened
      return {
        async request(key) {
          return answerOf(await engine.execute(createRide, { scope: scopeOf(key), key, input: rideInput }))
        },
        controls: controlsOf(engine),
        close: () => opened.close(),
      }
    },
  }
}

/** The background services, for the scenarios that are about them. */
function controlsOf(engine: Engine<Database>): NonNullable<Opened['controls']> {
  const { reaper } = createBackground({ engine, completer: false })
  return {
    async startReaper() {
      reaper?.start()
    },
    async stopReaper() {
      await reaper?.stop()
    },
    /** Deletes expired keys for so long, at this pace. */
    async reapFor(pace): Promise<null> {
      const { forMs, ...options } = pace as ReapPace
      const { reaper: own } = createBackground({ engine, completer: false, reaper: options })
      own?.start()
      await delay(forMs)
      await own?.stop()
      return null
    },
    /** Resumes all keys that are due, with the default concurrency where it is null. Returns how many, and how long it took. */
    async complete(concurrency): Promise<Completion> {
      const options = typeof concurrency === 'number' ? { concurrency } : {}
      const { completer } = createBackground({ engine, completer: options, reaper: false })
      const start = performance.now()
      let completed = 0
      for (let found = 1; found > 0;) {
        const counts = await completer?.runOnce()
        found = counts?.found ?? 0
        completed += counts?.completed ?? 0
      }
      return { completed, seconds: (performance.now() - start) / 1_000 }
    },
  }
}

/** How fast a reaper is to delete, and for how long. Without a pace, it is the default one. */
export type ReapPace = Pick<ReaperOptions, 'batchSize' | 'pauseMs'> & { readonly forMs: number }

/** What the completer did. */
export interface Completion {
  readonly completed: number
  readonly seconds: number
}

export const pawl = pawlIn('bench_pawl', 'pawl', 'Pawl')

/** The status that the HTTP adapter would answer, without its text. */
function answerOf(outcome: Outcome): Answer {
  switch (outcome.type) {
    case 'completed':
    case 'replayed':
      return { status: outcome.response.status, body: outcome.response.body.toString() }
    case 'in_flight':
      return { status: CONFLICT, body: outcome.type }
    case 'mismatch':
      return { status: MISMATCH, body: outcome.type }
    case 'expired':
      return { status: GONE, body: outcome.type }
    case 'limited':
    case 'retry_later':
    case 'stuck':
    case 'refused':
    case 'unavailable':
      return { status: 503, body: outcome.type }
  }
}
