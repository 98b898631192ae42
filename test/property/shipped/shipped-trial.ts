import { randomUUID } from 'node:crypto'
import { createBackground, createEngine, type Engine, type Pipeline } from '@pawl/core'
import { type FakeProvider, fakeProvider } from '@pawl/crash-kit'
import pg from 'pg'
import { inject } from 'vitest'
import { concludeScene } from '../../../packages/crash-kit/src/case/conclude-scene.js'
import { isOver } from '../../../packages/crash-kit/src/case/is-over.js'
import { Scene, type Theatre } from '../../../packages/crash-kit/src/cast/scene.js'
import { applicationName } from '../../../packages/crash-kit/src/database/backends.js'
import { renderTimeline } from '../../../packages/crash-kit/src/finding/render-timeline.js'
import type { History, Row, Violation } from '../../../packages/crash-kit/src/history.js'
import { type OpenTheatre, openTheatre } from '../../../packages/crash-kit/src/open-theatre.js'
import { judge } from '../../../packages/crash-kit/src/oracle/judge.js'
import { buildPipeline, type ChargeProvider } from '../pipelines/build-pipeline.js'
import { Chances } from '../pipelines/chances.js'
import { createFactTables, type FactDatabase } from '../pipelines/fact-tables.js'
import { EMPTY_PLAN } from '../pipelines/pipeline-plan.js'
import { referenceModel } from '../pipelines/reference-model.js'
import { modelViolations } from '../survival/model-violations.js'
import type { ShippedCase } from './shipped-case.js'
import { transactionEvidence } from './transaction-evidence.js'

/** Who asks: the name of its connections. */
const CLIENT = 'client'

/** Rounds that the largest plan can need, with a trouble in each phase. */
const MOST_ROUNDS = 60

/** More time passes before each, up to here: the completer lets keys rest for longer and longer. */
const MOST_REST = 8

/** More attempts than all that goes wrong in a case: that a key is stuck at its cap is tested elsewhere. */
const SETTINGS = { transactionRetries: 2, maxAttempts: 200 }

/** What one case showed. */
export interface Shipped {
  readonly violations: readonly Violation[]
  readonly timeline: string
}

/**
 * Runs cases on the engine as it ships: `createEngine` on an ordinary pool, with nothing between it and the server, and nothing
 * in it that could stop. What goes wrong comes from the pipeline, from the provider, and from another connection.
 */
export class ShippedTrial {
  readonly #opened: OpenTheatre
  readonly #provider: FakeProvider
  readonly #pool: pg.Pool
  cases = 0
  kills = 0

  private constructor(opened: OpenTheatre, provider: FakeProvider) {
    this.#opened = opened
    this.#provider = provider
    this.#pool = new pg.Pool(opened.theatre.database.poolConfig(CLIENT, { max: 3 }))
    this.#pool.on('error', () => {})
    this.#pool.setMaxListeners(0)
  }

  static async open(): Promise<ShippedTrial> {
    const provider = fakeProvider()
    const nowhere = { charge: () => Promise.reject(new Error('nobody asks')), find: async () => null }
    const opened = await openTheatre({
      pipeline: () => buildPipeline(EMPTY_PLAN, { provider: nowhere, chances: new Chances() }),
      pool: new pg.Pool({ connectionString: inject('databaseUrl') }),
      provider,
      prepare: ({ pool, schema }) => createFactTables(pool, schema),
      request: { scope: 'any', input: null as never },
    })
    return new ShippedTrial(opened, provider)
  }

  async close(): Promise<void> {
    await this.#pool.end()
    await this.#opened.close()
  }

  async run(each: ShippedCase): Promise<Shipped> {
    const { plan, input, sending } = each
    const chances = new Chances()
    const calls: Caller = { scene: null, execution: 0 }
    const pipeline = buildPipeline(plan, {
      provider: chargesAt(this.#provider, calls),
      chances,
      settings: SETTINGS,
    })
    const theatre = this.#theatreOf(each, pipeline)
    const scene = await Scene.open(theatre)
    calls.scene = scene
    for (const fault of each.provider) theatre.provider?.arm(fault)
    const { database } = theatre
    const engine = createEngine<FactDatabase>({
      ...sending,
      pool: this.#pool,
      pipelines: [pipeline],
      schema: database.pawlSchema,
    })
    const rounds = await this.#play(engine, pipeline, scene, calls, each)
    const lost = this.#lostClients()
    const evidence = await transactionEvidence(database, await database.commitsSince(scene.mark), plan)
    const { history, seen, timeline } = await concludeScene(scene)
    this.cases++
    const violations = [
      ...evidence,
      ...lost,
      ...seen,
      ...judge(disturbed(history, rounds), theatre.shape, null).filter(({ rule }) => rule !== 'lint'),
      ...modelViolations(history, referenceModel(plan, input), plan),
    ]
    return { violations, timeline: violations.length === 0 ? '' : renderTimeline(timeline) }
  }

  /** The client asks, backends are killed, and then the completer ends it. Gives its rounds; null: it could not. */
  async #play(
    engine: Engine<FactDatabase>,
    pipeline: Pipeline<FactDatabase, never>,
    scene: Scene,
    calls: Caller,
    { kills, asks }: ShippedCase,
  ): Promise<number | null> {
    const over = new AbortController()
    const killing = this.#kill(kills, scene, over.signal)
    try {
      for (let ask = 0; ask < asks; ask++) {
        await askOnce(engine, pipeline, scene, calls)
        if (await isEnded(scene)) return 0
        await pass(scene, ask)
      }
      over.abort()
      await killing
      // Nobody had come as far as to reserve it: the completer cannot know of it.
      if ((await keyRow(scene)) === null) await askOnce(engine, pipeline, scene, calls)
      const { completer } = createBackground({ engine, reaper: false })
      for (let round = 1; round <= MOST_ROUNDS; round++) {
        calls.execution = scene.nextExecution()
        await completer?.runOnce()
        if (await isEnded(scene)) return round
        await pass(scene, round)
      }
      return null
    } finally {
      over.abort()
      await killing
      await engine.close()
    }
  }

  #theatreOf({ plan, input }: ShippedCase, pipeline: Pipeline<FactDatabase, never>): Theatre {
    return {
      ...this.#opened.theatre,
      pipeline: () => pipeline,
      shape: {
        name: 'random-pipeline',
        version: 1,
        points: ['started', ...plan.phases.map(({ name }) => name), 'finished'],
        foreign: plan.phases.flatMap((phase) =>
          phase.kind === 'foreign' ? [{ phase: phase.name, guarantee: phase.guarantee }] : [],
        ),
        maxAttempts: SETTINGS.maxAttempts,
      },
      request: { scope: `scope-${randomUUID()}`, input },
    }
  }

  /** Ends one backend after the other that is at work for the client, at moments that only the server's time decides. */
  async #kill(kills: readonly number[], scene: Scene, over: AbortSignal): Promise<void> {
    const { admin, id } = scene.theatre.database
    for (const after of kills) {
      for (let passed = 0; passed < after && !over.aborted; passed++) await admin.query('SELECT 1')
      if (over.aborted) return
      const { rowCount } = await admin.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE application_name = $1 AND state <> 'idle' LIMIT 1`,
        [applicationName(id, CLIENT)],
      )
      this.kills += rowCount ?? 0
      if (rowCount === 1) scene.jot('kit', 'a backend of the client is terminated')
    }
  }

  #lostClients(): Violation[] {
    const { totalCount, idleCount, waitingCount } = this.#pool
    if (totalCount === idleCount && waitingCount === 0) return []
    const detail = `${totalCount - idleCount} of ${totalCount} connections did not come back to their pool.`
    return [{ rule: 'I14', title: 'after any fault, connections have come back', detail }]
  }
}

/** Whose calls the provider gets. */
interface Caller {
  scene: Scene | null
  execution: number
}

function chargesAt(provider: FakeProvider, caller: Caller): ChargeProvider {
  return {
    charge: async ({ phase, number }, options) => {
      const { scene, execution } = caller
      const { idempotencyKey = null } = options
      if (idempotencyKey !== null)
        scene?.calls.push({
          tick: scene.tick(),
          actor: CLIENT,
          execution,
          phase,
          kind: 'call',
          idempotencyKey,
        })
      const leave = scene?.enter({ actor: CLIENT, execution, phase, kind: 'call', idempotencyKey })
      try {
        return await provider.send({ phase, number }, options)
      } finally {
        leave?.()
      }
    },
    find: (idempotencyKey) => provider.find(idempotencyKey),
  }
}

async function askOnce(
  engine: Engine<FactDatabase>,
  pipeline: Pipeline<FactDatabase, never>,
  scene: Scene,
  caller: Caller,
): Promise<void> {
  const { scope, input } = scene.theatre.request
  const execution = scene.nextExecution()
  caller.execution = execution
  const outcome = await engine.execute(pipeline, { scope, key: scene.key, input: input as never })
  await scene.tell({ actor: CLIENT, execution, outcome, disturbed: true, impostor: false })
}

function keyRow({ theatre, scope, key }: Scene): Promise<Row | null> {
  return theatre.database.keyRow(scope, key)
}

async function isEnded(scene: Scene): Promise<boolean> {
  return isOver(await keyRow(scene))
}

async function pass(scene: Scene, round: number): Promise<void> {
  if ((await keyRow(scene)) !== null) await scene.passUntilDue(Math.min(round, MOST_REST))
}

/** Whoever runs it may be told that something was away. */
function disturbed(history: History, rounds: number | null): History {
  const told = history.told.map((each) => ({ ...each, disturbed: true }))
  return { ...history, told, completerRounds: rounds }
}
