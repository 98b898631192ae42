import type { StandardSchemaV1 } from '@standard-schema/spec'
import { PawlError } from '../errors.js'
import { DEFAULT_QUIET_MS, DEFAULT_WINDOW_MS } from '../limits.js'
import {
  checkEffectName,
  checkFinish,
  checkForeignPhase,
  checkLocalPhase,
  checkPipelineOptions,
  checkPoint,
  ownerOf,
} from './check-pipeline.js'
import { describePipeline, drawPipeline, hashDefinition } from './describe-pipeline.js'
import type { Respond, RetryLater } from './directive.js'
import type { Jsonable, JsonValue, NotJson } from './json-value.js'
import type {
  Conditional,
  ForeignPhaseOptions,
  GuaranteeOptions,
  MaybePromise,
  Phase,
  PhaseReturn,
  StateAfter,
  TransactionContext,
} from './phase.js'
import { definitionOf, type Pipeline, type PipelineDefinition, type UpgradeFrom } from './pipeline.js'
import {
  PHASE_SETTING_NAMES,
  PIPELINE_SETTING_NAMES,
  type PhaseSettings,
  type PipelineSettings,
} from './settings.js'

/** What a pipeline is declared with, besides its phases. */
export interface PipelineOptions<Input> extends PipelineSettings {
  /** Names the pipeline in rows, logs and errors. Never reuse a name for something else. */
  readonly name: string
  /** Raise it whenever phases change their names, order or kinds. */
  readonly version: number
  /** Which part of the input makes two requests the same. Default: all of it, as canonical JSON. */
  readonly fingerprint?: (input: Input) => JsonValue
  /** How rows of older versions continue under this one. */
  readonly upgradesFrom?: readonly UpgradeFrom[]
}

type Literal<Name extends string> = string extends Name ? 'a phase name is a string literal' : Name

/** The phase's name, or the sentence that says why it cannot be one. */
type PointName<Name extends string, Taken extends string> = Name extends 'started' | 'finished'
  ? `'${Name}' is a reserved recovery point: choose another phase name`
  : Name extends Taken
    ? `there is already a phase '${Name}': phase names are unique`
    : Literal<Name>

/** Phases in order. Only `finish` makes it a pipeline. */
export interface PipelineBuilder<DB, Given, Input, State, Points extends string> {
  /**
   * A phase of database work only, in one transaction with its recovery point.
   *
   * @example
   * .local('ride_created', async ({ tx, input, scope }) => {
   *   const ride = await tx.insertInto('rides').values({ rider: scope, ...input }).returning('id').executeTakeFirstOrThrow()
   *   return { rideId: ride.id } // merged into the typed, durable state
   * })
   */
  local<Name extends string, Returned, Condition extends boolean = never>(
    name: PointName<Name, Points>,
    run: (context: TransactionContext<DB, Input, State>) => Returned & PhaseReturn<Returned>,
    options?: PhaseSettings & Conditional<Input, State, Condition>,
  ): PipelineBuilder<DB, Given, Input, StateAfter<State, Returned, Condition>, Points | Name>

  /**
   * A phase with exactly one foreign side effect: `call` without a transaction, then `settle` in one.
   *
   * @example
   * .foreign('charge_created', {
   *   call: ({ state, idempotencyKey, signal }) => payments.charge({ ride: state.rideId }, { idempotencyKey, signal }),
   *   settle: async ({ tx, state, result }) => {
   *     await tx.updateTable('rides').set({ charge_id: result.id }).where('id', '=', state.rideId).execute()
   *     return { chargeId: result.id }
   *   },
   *   onError: ({ error }) => (isCardDeclined(error) ? respond(402, { code: 'declined' }) : retryLater(error)),
   * })
   */
  foreign<
    Name extends string,
    Called,
    Returned = undefined,
    Condition extends boolean = never,
    Unknown = never,
  >(
    name: PointName<Name, Points>,
    options: ForeignPhaseOptions<DB, Input, State, Called, Returned> &
      GuaranteeOptions<DB, Input, State, Awaited<Called>, Unknown> &
      Conditional<Input, State, Condition>,
  ): PipelineBuilder<
    DB,
    Given,
    Input,
    StateAfter<State, Awaited<Returned> | Awaited<Unknown>, Condition>,
    Points | Name
  >

  /**
   * The last phase: its transaction stores the response.
   *
   * @example
   * .finish(async ({ state, stage }) => {
   *   await stage('send_receipt', { rideId: state.rideId })
   *   return respond(201, { id: state.rideId, charge: state.chargeId })
   * })
   */
  finish(
    run: (context: TransactionContext<DB, Input, State>) => MaybePromise<Respond | RetryLater>,
    options?: PhaseSettings,
  ): Pipeline<DB, Given>
}

type MaybeSchema = StandardSchemaV1 | undefined

/** What `execute` takes and what phases see: defined by the schema, where there is one. */
type GivenBy<Schema extends MaybeSchema, Input> = Schema extends StandardSchemaV1
  ? StandardSchemaV1.InferInput<Schema>
  : Input
type StoredBy<Schema extends MaybeSchema, Input> = Schema extends StandardSchemaV1
  ? StandardSchemaV1.InferOutput<Schema>
  : Input

// `unknown` adds nothing to what it is intersected with; the other branch makes the compiler print its sentence.
type JsonOutput<Schema extends MaybeSchema> = [StoredBy<Schema, null>] extends [
  Jsonable<StoredBy<Schema, null>>,
]
  ? unknown
  : NotJson<"the schema's output is not JSON: it is stored, so it cannot hold Dates, bigints or class instances">
type JsonInput<Input> = [Input] extends [Jsonable<Input>]
  ? unknown
  : NotJson<"the input's type is not JSON: it is stored, so it cannot hold Dates, bigints or class instances">

type Authorize<DB, Input> = (
  context: Omit<TransactionContext<DB, Input, object>, 'state'>,
) => MaybePromise<Respond | RetryLater | void>

/**
 * Declares a pipeline: with a Standard Schema as `input`, or with the input's type as type argument. One signature for
 * both, because the compiler explains only the last of several.
 *
 * @example
 * const createRide = pipeline({ name: 'create-ride', version: 1, input: CreateRide })
 * const createRide = pipeline<{ from: string; to: string }>({ name: 'create-ride', version: 1 })
 */
export type DefinePipeline<DB> = <Input = JsonValue, Schema extends MaybeSchema = undefined>(
  options: PipelineOptions<GivenBy<Schema, Input>> & {
    /**
     * A Standard Schema (zod, valibot, arktype, …) that checks the input. Phases see its output, which is stored, so it
     * has to be JSON that the schema accepts again. The fingerprint is taken from the input as given.
     */
    readonly input?: Schema & JsonOutput<Schema>
    /**
     * Called before the first phase of a request that was accepted a while ago: one that was enqueued, or whose process
     * died before it had begun. Whoever sent it may have lost the right since. Return `respond(403)` to end the request
     * with that response, or nothing to let it run; if it throws, nothing runs. It is not called for a request that has
     * begun: that one has to be finished.
     *
     * @example
     * authorize: async ({ tx, scope }) => {
     *   const user = await tx.selectFrom('users').select('active').where('id', '=', scope).executeTakeFirst()
     *   return user?.active ? undefined : respond(403, { code: 'not_allowed' })
     * }
     */
    readonly authorize?: Authorize<DB, StoredBy<Schema, Input>>
  } & JsonInput<Input>,
) => PipelineBuilder<DB, GivenBy<Schema, Input>, StoredBy<Schema, Input>, object, never>

type UntypedOptions = PipelineOptions<never> & {
  readonly input?: unknown
  readonly authorize?: (context: never) => unknown
}

export function definePipeline(options: UntypedOptions): UntypedBuilder {
  checkPipelineOptions(options as unknown as Record<string, unknown>)
  return new UntypedBuilder(options, [])
}

/** The builder at run time; callers see it as `DefinePipeline`. Each step returns a new one, so prefixes can be shared. */
class UntypedBuilder {
  readonly #options: UntypedOptions
  readonly #phases: readonly Phase[]

  constructor(options: UntypedOptions, phases: readonly Phase[]) {
    this.#options = options
    this.#phases = phases
  }

  local(
    name: string,
    run: (context: never) => unknown,
    options: PhaseSettings & Conditional<never, never, boolean> = {},
  ): UntypedBuilder {
    const owner = this.#checkName(name)
    checkLocalPhase(owner, run, options)
    return this.#with({
      kind: 'local',
      name,
      run,
      when: options.when ?? null,
      settings: pickPhaseSettings(options),
    })
  }

  foreign(
    name: string,
    options: ForeignPhaseOptions<never, never, never, never, never> &
      GuaranteeOptions<never, never, never, never, never> &
      Conditional<never, never, boolean>,
  ): UntypedBuilder {
    const owner = this.#checkName(name)
    checkForeignPhase(owner, options as unknown as Record<string, unknown>)
    const effectName = options.effectName ?? name
    checkEffectName(
      owner,
      effectName,
      this.#phases.flatMap((phase) => (phase.kind === 'foreign' ? [phase.effectName] : [])),
    )
    return this.#with({
      kind: 'foreign',
      name,
      effectName,
      guarantee: options.guarantee ?? 'keyed',
      windowMs: options.windowMs ?? DEFAULT_WINDOW_MS,
      quietForMs: options.quietForMs ?? DEFAULT_QUIET_MS,
      call: options.call,
      settle: options.settle ?? null,
      reconcile: options.reconcile ?? null,
      reference: options.reference ?? null,
      onError: options.onError ?? null,
      isAnswer: options.isAnswer ?? null,
      whenUnknown: typeof options.whenUnknown === 'function' ? options.whenUnknown : null,
      when: options.when ?? null,
      settings: pickPhaseSettings(options),
    })
  }

  finish(run: (context: never) => unknown, options: PhaseSettings = {}): Pipeline<never, never> {
    const { name, version, input, fingerprint, authorize, upgradesFrom } = this.#options
    const owner = ownerOf(name, 'finished')
    checkFinish(owner, run, options)
    const definition: PipelineDefinition = {
      name,
      version,
      schema: (input as StandardSchemaV1 | undefined) ?? null,
      fingerprint: fingerprint ?? null,
      authorize: authorize ?? null,
      upgradesFrom: upgradesFrom ?? [],
      phases: this.#phases,
      finish: { kind: 'finish', name: 'finished', run, settings: pickPhaseSettings(options) },
      settings: pick(this.#options, PIPELINE_SETTING_NAMES),
      hash: hashDefinition(name, version, this.#phases),
    }
    checkUpgradeTargets(definition)
    return Object.freeze({
      name,
      version,
      definitionHash: definition.hash,
      describe: () => describePipeline(definition),
      diagram: () => drawPipeline(definition),
      [definitionOf]: definition,
    }) as Pipeline<never, never>
  }

  #checkName(name: string) {
    const owner = ownerOf(this.#options.name, name)
    checkPoint(
      owner,
      name,
      this.#phases.map((phase) => phase.name),
    )
    return owner
  }

  #with(phase: Phase): UntypedBuilder {
    return new UntypedBuilder(this.#options, [...this.#phases, phase])
  }
}

function checkUpgradeTargets(definition: PipelineDefinition): void {
  const points = ['started', ...definition.phases.map((phase) => phase.name)]
  for (const upgrade of definition.upgradesFrom) {
    for (const [from, to] of Object.entries(upgrade.points ?? {})) {
      if (!points.includes(to)) {
        throw new PawlError(
          'PAWL_INVALID_PIPELINE',
          `${ownerOf(definition.name).where}: upgradesFrom version ${upgrade.version} maps '${from}' to '${to}', ` +
            `which is not a recovery point of version ${definition.version}.`,
        )
      }
    }
  }
}

function pickPhaseSettings(options: PhaseSettings): PhaseSettings {
  return pick(options, PHASE_SETTING_NAMES)
}

function pick<T extends object>(from: T, names: readonly (keyof T)[]): Partial<T> {
  return Object.fromEntries(
    names.filter((name) => from[name] !== undefined).map((name) => [name, from[name]]),
  ) as Partial<T>
}
