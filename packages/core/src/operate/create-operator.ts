import { checkDate, checkKnownOptions, type OptionOwner } from '../check-option.js'
import { readReaperOptions, reap, type ReaperCounts } from '../background/reaper.js'
import { DEFAULT_LIST_LIMIT, MAX_SHOWN_WITH_KEY } from '../limits.js'
import type { Protection } from '../protection.js'
import type { AnyPipeline } from '../pipeline/pipeline.js'
import { type KeyView, viewKey } from '../engine/key-view.js'
import { findStandingEffects } from '../storage/effects/find-standing-effects.js'
import { findDeadJobs } from '../storage/jobs/find-dead-jobs.js'
import { countUnfinished } from '../storage/keys/count-unfinished.js'
import { groupUnfinished } from '../storage/keys/group-unfinished.js'
import { hasKeysOf } from '../storage/keys/has-keys-of.js'
import { answerKey } from '../storage/keys/answer-key.js'
import { isAnswered } from '../storage/interventions/is-answered.js'
import { noteRound } from '../storage/interventions/note-round.js'
import { unstickKey } from '../storage/keys/unstick-key.js'
import { revokeLease } from '../storage/keys/revoke-lease.js'
import { checkBecause } from '../because.js'
import { checkErasure } from '../erase/check-erasure.js'
import { eraseScope } from '../erase/erase-scope.js'
import type { Erasure, ErasureReport } from '../erase/erasure.js'
import type { Store } from '../storage/statement.js'
import {
  checkDeadJobs,
  checkDeadJobsOptions,
  checkFilter,
  checkForgetOptions,
  checkKeyReference,
  checkPipelineName,
  checkResponse,
  checkSteerOptions,
  checkVerdict,
  checkVersion,
  checkWindow,
} from './check-arguments.js'
import { decideUnstick } from './decide-unstick.js'
import { digestOf } from './digest.js'
import { doctor } from './doctor.js'
import { decideExtend } from '../engine/decide-extend.js'
import { cachesAreOutdated } from '../caches-are-outdated.js'
import { decideForget } from './decide-forget.js'
import type { Because } from '../because.js'
import { findNamed } from '../engine/find-named.js'
import type { Intervention, KeyReference, SteerOptions } from '../engine/intervention.js'
import type {
  BoundedCount,
  CallVerdict,
  DeadJobs,
  EffectView,
  Finding,
  ForgetOptions,
  JobView,
  KeyFilter,
  KeyReport,
  Operator,
  OperatorOptions,
  OperatorResponse,
  StatusReport,
  UnfinishedGroup,
} from './operator.js'
import { checkDuplicatesWindow, readDuplicates } from './read-duplicates.js'
import { readEffects } from './read-effects.js'
import { listFiltered, pageKeys, readListCursor } from './page-keys.js'
import { reportKey, reportStatus } from './report.js'
import { requeueJobs } from './requeue-jobs.js'
import { steerKey } from '../engine/steer-key.js'
import { bounded, viewGroup, viewJob } from './views.js'
import { checkInterventionFilter, pageInterventions } from './page-interventions.js'
import { checkSought, find } from './find.js'
import { checkReadingOptions, Readings, readSizes } from './take-reading.js'
import type { Reading, ReadingOptions, TableSize } from './reading.js'
import { explainNext } from './explain-next.js'
import { readFlow, readPipelines } from './read-flow.js'
import { viewPipeline } from './view-pipeline.js'
import type {
  DuplicatesWindow,
  Findings,
  InterventionFilter,
  InterventionPage,
  ScopeDuplicates,
} from './audit.js'
import type { Flow } from './flow.js'
import type { NextMove } from './next-move.js'
import type { KeyPage } from './page-keys.js'
import type { RecordedPipeline } from '../pipeline/recorded-pipeline.js'
import { findPipeline } from '../storage/pipelines/find-pipelines.js'
import { noteLook } from '../storage/interventions/note-look.js'
import { OperatorContext } from './operator-context.js'

/**
 * Creates an operator's view of the keys and jobs in a database. It needs no pipelines: the application's engines run
 * what it sets going.
 *
 * @example
 * const operator = createOperator({ pool })
 * const because = { actor: 'anna@ops-1', reason: 'Provider support: charge ch_7 exists. Ticket 4711.' }
 * await operator.unstick({ scope, key }, because, { type: 'executed', result: { id: 'ch_7' } })
 */
export function createOperator(options: OperatorOptions): Operator {
  return new DatabaseOperator(new OperatorContext(options))
}

class DatabaseOperator implements Operator {
  readonly #context: OperatorContext

  readonly #readings: Readings

  constructor(context: OperatorContext) {
    this.#context = context
    this.#readings = new Readings(context)
  }

  async status(): Promise<StatusReport> {
    return this.#context.with(reportStatus)
  }

  async list(filter: KeyFilter = {}): Promise<readonly KeyView[]> {
    checkFilter('list', filter)
    const listed = await this.#context.with((store) => listFiltered(store, filter, 'whole'))
    return listed.map(({ row }) => viewKey(row))
  }

  async page({ after, ...filter }: KeyFilter & { readonly after?: string } = {}): Promise<KeyPage> {
    checkFilter('page', filter)
    const cursor = readListCursor(after)
    return this.#context.with((store) => pageKeys(store, filter, cursor))
  }

  async flow(): Promise<Flow> {
    return this.#context.with(readFlow)
  }

  async pipelines(): Promise<readonly RecordedPipeline[]> {
    return this.#context.with(readPipelines)
  }

  async next(of: KeyReference): Promise<NextMove | null> {
    checkKeyReference('next', of)
    return this.#context.with(async (store) => {
      const row = await findNamed(store, of)
      if (row === null) return null
      const recorded = await findPipeline(store, row)
      return explainNext(row, recorded === null ? null : viewPipeline(recorded), row.nowMs)
    })
  }

  async show(of: KeyReference): Promise<KeyReport | null> {
    checkKeyReference('show', of)
    return this.#context.with(async (store) => {
      const row = await findNamed(store, of)
      return row === null ? null : reportKey(store, row)
    })
  }

  async reveal(of: KeyReference, because: Because): Promise<KeyReport | null> {
    checkKeyReference('reveal', of)
    checkBecause('reveal', because)
    return this.#context.with(async (store) => {
      const row = await findNamed(store, of)
      if (row === null) return null
      await noteLook(store, row, because)
      return reportKey(store, row)
    })
  }

  async find(text: string): Promise<Findings> {
    const sought = checkSought(text)
    return this.#context.with((store) => find(store, sought))
  }

  async sizes(): Promise<readonly TableSize[]> {
    return this.#context.with(readSizes)
  }

  async reading(options: ReadingOptions = {}): Promise<Reading | null> {
    const everyMs = checkReadingOptions(options)
    return this.#readings.take(everyMs)
  }

  async interventions(filter: InterventionFilter = {}): Promise<InterventionPage> {
    const listing = checkInterventionFilter(filter)
    return this.#context.with((store) => pageInterventions(store, listing))
  }

  async duplicates(window: DuplicatesWindow): Promise<readonly ScopeDuplicates[]> {
    const checked = checkDuplicatesWindow(window)
    return this.#context.with((store) => readDuplicates(store, checked))
  }

  async unstick(
    of: KeyReference,
    because: Because,
    verdict?: CallVerdict,
    options: SteerOptions = {},
  ): Promise<Intervention> {
    checkSteerOptions('unstick', options)
    checkKeyReference('unstick', of)
    checkBecause('unstick', because)
    if (verdict !== undefined) checkVerdict('unstick', verdict)
    return steerKey(this.#context, { of, because, ...options }, (row) => {
      const decision = decideUnstick(row, verdict ?? null)
      if (decision.type === 'refuse') return decision
      const { said } = decision
      return {
        type: 'write',
        given: { verdict: verdict === undefined ? null : noteOf(verdict, this.#context.tables.protection) },
        write: (store, steering) => unstickKey(store, steering, said),
      }
    })
  }

  async revoke(of: KeyReference, because: Because, options: SteerOptions = {}): Promise<Intervention> {
    checkSteerOptions('revoke', options)
    checkKeyReference('revoke', of)
    checkBecause('revoke', because)
    return steerKey(this.#context, { of, because, ...options }, (row) => {
      if (row.leaseUntilMs === null || row.leaseUntilMs <= row.nowMs) {
        const found = row.status === 'running' ? 'Its lease is over' : `It is ${row.status}`
        return { type: 'refuse', detail: `${found}, and nobody holds it: there is nothing to revoke.` }
      }
      return { type: 'write', given: {}, write: revokeLease }
    })
  }

  async answer(
    of: KeyReference,
    because: Because,
    response: OperatorResponse,
    options: SteerOptions = {},
  ): Promise<Intervention> {
    checkSteerOptions('answer', options)
    checkKeyReference('answer', of)
    checkBecause('answer', because)
    const checked = checkResponse('answer', response)
    return steerKey(this.#context, { of, because, ...options }, (row) => {
      if (row.status !== 'stuck') {
        return {
          type: 'refuse',
          detail: `The key is ${row.status}, and only a stuck key can be answered.`,
        }
      }
      return {
        type: 'write',
        given: {
          status: response.status,
          body: digestOf(response.body, this.#context.tables.protection),
          retentionMs: checked.retentionMs,
          ...(checked.wipe !== 'nothing' && { wipe: checked.wipe }),
        },
        write: (store, steering) => answerKey(store, steering, checked.response, checked),
      }
    })
  }

  async extend(
    of: KeyReference,
    because: Because,
    until: Date,
    options: SteerOptions = {},
  ): Promise<Intervention> {
    checkSteerOptions('extend', options)
    checkKeyReference('extend', of)
    checkBecause('extend', because)
    checkDate({ code: 'PAWL_INVALID_OPTION', where: 'extend' }, 'until', until)
    return steerKey(this.#context, { of, because, ...options }, (row) => decideExtend(row, until))
  }

  async forget(of: KeyReference, because: Because, options: ForgetOptions = {}): Promise<Intervention> {
    checkForgetOptions('forget', options)
    checkKeyReference('forget', of)
    checkBecause('forget', because)
    const { effectsUndone = false, ...steering } = options
    let mayBeCached = true
    const end = await steerKey(this.#context, { of, because, ...steering }, async (row, store) => {
      const standing = await findStandingEffects(store, row, MAX_SHOWN_WITH_KEY)
      const known = { standing, isAnswered: await isAnswered(store, row) }
      return decideForget(row, known, effectsUndone, () => {
        mayBeCached = false
      })
    })
    if (end.type === 'done' && mayBeCached) await cachesAreOutdated()
    return end
  }

  async erase(erasure: Erasure): Promise<ErasureReport> {
    const checked = checkErasure(erasure)
    const { hashSecret } = this.#context
    const withRights = <T>(work: (store: Store) => Promise<T>) => this.#context.with(work, 'eraser')
    const stopping = new AbortController().signal
    return eraseScope({ with: withRights, hashSecret, stopping, onErased: () => {} }, checked)
  }

  async deadJobs(
    options: { readonly name?: string; readonly limit?: number } = {},
  ): Promise<readonly JobView[]> {
    checkDeadJobsOptions(options)
    const { name = null, limit = DEFAULT_LIST_LIMIT } = options
    const rows = await this.#context.with((store) => findDeadJobs(store, name, limit))
    return rows.map(viewJob)
  }

  async requeue(jobs: DeadJobs, because: Because): Promise<number> {
    checkDeadJobs(jobs)
    checkBecause('requeue', because)
    return requeueJobs(this.#context, jobs, because)
  }

  async reap(because: Because, options: { readonly effectRetentionMs?: number } = {}): Promise<ReaperCounts> {
    checkBecause('reap', because)
    const owner: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'reap' }
    checkKnownOptions(owner, options, ['effectRetentionMs'])
    const pace = readReaperOptions(owner, options, 1)
    const { effectRetentionMs } = pace
    const note = (counts: ReaperCounts | null) => {
      const detailJson = JSON.stringify({ before: null, given: { effectRetentionMs }, counts })
      return this.#context.with((store) => noteRound(store, 'reap', { ...because, detailJson }))
    }
    // Noted first, because a round that fails halfway has deleted some.
    await note(null)
    const counts = await this.#context.explain(() => reap(this.#context, pace, new AbortController().signal))
    await note(counts)
    return counts
  }

  async drain(pipeline: string, version: number): Promise<readonly UnfinishedGroup[]> {
    checkVersion('drain', pipeline, version)
    const groups = await this.#context.with((store) => groupUnfinished(store, { pipeline, version }))
    return groups.map(viewGroup)
  }

  async hasKeysOf(pipeline: string): Promise<boolean> {
    checkPipelineName('hasKeysOf', pipeline)
    return this.#context.with((store) => hasKeysOf(store, pipeline))
  }

  effects(window: { readonly from: Date; readonly to: Date }): AsyncIterable<EffectView> {
    checkKnownOptions({ code: 'PAWL_INVALID_OPTION', where: 'effects' }, window, ['from', 'to'])
    checkWindow('effects', window)
    return readEffects(this.#context, window)
  }

  async countUnfinished(before: Date): Promise<BoundedCount> {
    checkDate({ code: 'PAWL_INVALID_OPTION', where: 'countUnfinished' }, 'before', before)
    return bounded(await this.#context.with((store) => countUnfinished(store, before.getTime())))
  }

  async doctor(
    options: { readonly pipelines?: readonly AnyPipeline<never>[] } = {},
  ): Promise<readonly Finding[]> {
    return doctor(this.#context, options)
  }
}

/** A verdict as it is recorded: what a call returned may contain what nobody should keep. */
function noteOf(verdict: CallVerdict, protection: Protection | null): object {
  const { type } = verdict
  return type === 'executed' ? { type, result: digestOf(verdict.result, protection) } : { type }
}
