import { absent, type Engine, type Pipeline, pawl, respond } from '@pawl/core'
import type { RunningEngine } from '../../packages/core/src/engine/running-engine.js'
import { TestDatabase } from './test-database.js'

const { pipeline, createEngine } = pawl<never>()

export const WINDOW_MS = 3_600_000
export const QUIET_MS = 60_000
export const MAX_ATTEMPTS = 3
export const MAX_AGE_MS = 24 * 3_600_000

/** What pipelines did when an engine ran them, such as `call charged` and the key that it was called with. */
export interface Done {
  readonly did: 'run' | 'call' | 'ask' | 'settle' | 'go_on'
  readonly phase: string
  readonly providerKey: string | null
}

/** Pipelines of every guarantee on an engine that has recorded them. They note what they do, and always succeed. */
export class Explained {
  readonly database: TestDatabase
  readonly done: Done[] = []
  readonly pipelines: Readonly<Record<Kind, Pipeline<never, null>>>
  readonly #engine: Engine<never>

  private constructor(database: TestDatabase) {
    this.database = database
    this.pipelines = {
      keyed: this.#pipelineOf('keyed', { windowMs: WINDOW_MS }),
      keyed_and_asked: this.#pipelineOf('keyed_and_asked', { windowMs: WINDOW_MS, ...this.#asked }),
      queryable: this.#pipelineOf('queryable', {
        guarantee: 'queryable',
        quietForMs: QUIET_MS,
        ...this.#asked,
      }),
      at_most_once: this.#pipelineOf('at_most_once', { guarantee: 'at_most_once', whenUnknown: 'stuck' }),
      expendable: this.#pipelineOf('expendable', {
        guarantee: 'at_most_once',
        whenUnknown: () => this.#note('go_on', 'charged'),
      }),
    }
    this.#engine = createEngine({
      pool: database.pool({ max: 2 }),
      schema: database.schema,
      namespace: 'explained',
      pipelines: Object.values(this.pipelines),
      defaults: { maxAttempts: MAX_ATTEMPTS, maxAgeMs: MAX_AGE_MS },
    })
  }

  static async create(): Promise<Explained> {
    const explained = new Explained(await TestDatabase.create())
    await explained.#engine.recordPipelines()
    return explained
  }

  /** Resumes a key, as a person does or (`due`) as a completer, and returns what was done. */
  async resume(key: { readonly id: string; readonly scope: string; readonly key: string }, due: boolean) {
    this.done.length = 0
    const engine = this.#engine as unknown as RunningEngine<never>
    const outcome = due ? await engine.resumeDue(key) : await engine.resume(key.id)
    return { outcome, done: [...this.done] }
  }

  async drop(): Promise<void> {
    await this.#engine.close()
    await this.database.drop()
  }

  get #asked() {
    return {
      reconcile: ({ idempotencyKey }: { readonly idempotencyKey: string }) => {
        this.#note('ask', 'charged', idempotencyKey)
        return absent()
      },
    }
  }

  /** With a conditional phase that always runs, and a second call behind the one in question. */
  #pipelineOf(name: Kind, charge: object): Pipeline<never, null> {
    const calls = (phase: string) => ({
      call: ({ idempotencyKey }: { readonly idempotencyKey: string }) => {
        this.#note('call', phase, idempotencyKey)
        return { of: phase }
      },
      settle: () => this.#note('settle', phase),
    })
    return pipeline<null>({ name, version: 1 })
      .local('created', () => this.#note('run', 'created'))
      .foreign('charged', { effectName: 'charge', ...calls('charged'), ...charge } as never)
      .local('noted', () => this.#note('run', 'noted'), { when: () => true })
      .foreign('mailed', { ...calls('mailed'), guarantee: 'at_most_once', whenUnknown: 'stuck' })
      .finish(() => {
        this.#note('run', 'finished')
        return respond(201)
      })
  }

  #note(did: Done['did'], phase: string, providerKey: string | null = null): void {
    this.done.push({ did, phase, providerKey })
  }
}

export const KINDS = ['keyed', 'keyed_and_asked', 'queryable', 'at_most_once', 'expendable'] as const
export type Kind = (typeof KINDS)[number]
