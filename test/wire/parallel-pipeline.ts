import { type JsonValue, pawl, type Pipeline, respond } from '@pawl/core'
import type { FakeProvider } from '@pawl/crash-kit'
import { sql, type Transaction } from 'kysely'
import { isDeepStrictEqual } from 'node:util'
import type { PipelineShape } from '../../packages/crash-kit/src/history.js'
import { businessRows } from '../../packages/crash-kit/src/oracle/business-rows.js'
import { Chances } from '../property/pipelines/chances.js'
import { type FactDatabase, runOf } from '../property/pipelines/fact-tables.js'
import type { PlannedPipeline } from './planned-requests.js'
import { SETTINGS } from './wire-trial.js'

const { pipeline } = pawl<FactDatabase>()

/** How often each phase fails before it succeeds, unless the options say otherwise. */
const FAILS = 2

/** The rows that each phase leaves exactly once. */
const FACTS = ['written 0', 'written 1', 'written 2', 'charged 0', 'charged 1', 'finished 0', 'finished 1']

const PARALLEL_SHAPE: PipelineShape = {
  name: 'parallel',
  version: 1,
  points: ['started', 'written', 'charged', 'finished'],
  foreign: [{ phase: 'charged', guarantee: 'keyed' }],
  maxAttempts: SETTINGS.maxAttempts,
}

/**
 * Bodies as people write them: several queries at once, all of them awaited together with something that may be the first
 * to fail, in JavaScript (such as a payload that is refused) or in the database.
 */
export function parallelPipeline(provider: FakeProvider, fails = FAILS): PlannedPipeline {
  return {
    plan: 'the parallel pipeline',
    pipeline: pipelineThatFails(provider, fails),
    shape: PARALLEL_SHAPE,
    violations: ({ commits }) => {
      const facts = (businessRows(commits)['facts'] ?? []).map(
        ({ phase, n }) => `${phase as string} ${n as number}`,
      )
      return isDeepStrictEqual(facts.toSorted(), FACTS.toSorted())
        ? []
        : [{ rule: 'oracle', title: 'each row is there once', detail: facts.join(', ') }]
    },
  }
}

function pipelineThatFails(provider: FakeProvider, times: number): Pipeline<FactDatabase, JsonValue> {
  const chances = new Chances()
  return pipeline({ name: 'parallel', version: 1, ...SETTINGS })
    .local('written', async ({ tx, scope, keyId, stage }) => {
      const payload = chances.strikes(keyId, 'written', times) ? { at: new Date() } : { at: 'noon' }
      await Promise.all([
        fact(tx, { scope, keyId }, 'written', 0),
        fact(tx, { scope, keyId }, 'written', 1),
        fact(tx, { scope, keyId }, 'written', 2),
        stage('receipt', payload as JsonValue),
      ])
    })
    .foreign('charged', {
      call: ({ keyId, idempotencyKey, signal }) =>
        provider.send({ keyId, phase: 'charged' }, { idempotencyKey, signal }),
      settle: async ({ tx, scope, keyId }) => {
        const fails = chances.strikes(keyId, 'charged', times)
        await Promise.all([
          fails ? sql`SELECT 1 / 0`.execute(tx) : null,
          fact(tx, { scope, keyId }, 'charged', 0),
          fact(tx, { scope, keyId }, 'charged', 1),
        ])
      },
    })
    .finish(async ({ tx, scope, keyId }) => {
      const fails = chances.strikes(keyId, 'finished', times)
      await Promise.all([
        fact(tx, { scope, keyId }, 'finished', 0),
        fails ? Promise.reject(new Error('the last phase threw, as planned')) : null,
        fact(tx, { scope, keyId }, 'finished', 1),
      ])
      return respond(201, { done: true })
    })
}

function fact(
  tx: Transaction<FactDatabase>,
  whose: { readonly scope: string; readonly keyId: string },
  phase: string,
  n: number,
): Promise<unknown> {
  return tx
    .insertInto('facts')
    .values({ run: runOf(whose), phase, n, value: 'null' })
    .execute()
}
