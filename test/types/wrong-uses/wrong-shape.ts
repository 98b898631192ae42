import { createEngine, respond } from '@pawl/core'
import * as v from 'valibot'
import { z } from 'zod'
import { engine, other, pipeline, pool, right } from './database.js'

const start = pipeline<{ amount: number }>({ name: 'wrong', version: 1 })

// returns
start.local('a', () => [1])
start.local('a', () => 'text')
start.local('a', async () => 1)
start.foreign('a', { call: () => ({ id: '1' }), settle: () => ['1'] })

// foreign
start.foreign('a', {})
start.foreign('a', { settle: () => ({}) })
start.foreign('a', { call: () => 1, call2: () => 2 })
start.foreign('a', { call: [() => 1, () => 2] })
start.foreign('a', { call: ({ tx }) => tx })
start.foreign('a', { call: () => 1, when: ({ tx }) => tx !== null })
start.foreign('a', { call: () => 1, guarantee: 'queryable' })
start.foreign('a', { call: () => 1, guarantee: 'at_most_once', windowMs: 1 })
start.foreign('a', { call: () => 1, guarantee: 'sometimes' })
start.foreign('a', { call: () => 1, quietForMs: 1 })
start.foreign('a', { call: () => ({ id: '1' }), settle: ({ result }) => ({ id: result.idd }) })
start.foreign('a', { call: () => ({ id: '1' }), settle: ({ state }) => ({ id: state.rideId }) })
start
  .local('a', () => ({ rideId: '1' }))
  .foreign('b', { call: () => ({ id: '1' }), settle: ({ state }) => ({ id: state.rideIdd }) })
start.local('a', ({ tx }) => {
  void tx.selectFrom('nowhere')
})

// names
start.local('a', () => {}).local('a', () => {})
start.local('a', () => {}).foreign('a', { call: () => 1 })
start.local('started', () => {})
start.local('finished', () => {})
start.foreign('finished', { call: () => 1 })
start.local(String('a'), () => {})
start.local('a' as 'a' | 'b', () => {})

// finish
start.finish(() => ({ status: 200 }))
start.finish(async () => ({ status: 200 }))
start.finish(() => {})
start.finish(() => respond(200), { when: () => true })

// not a pipeline
createEngine({ pool, pipelines: [start] })
createEngine({ pool, pipelines: [start.local('a', () => {})] })
void engine.execute(start, { scope: 's', key: 'k', input: { amount: 1 } })

// execute
void engine.execute(right, { scope: 's', key: 'k', input: { amount: '1' } })
void engine.execute(right, { scope: 's', key: 'k', input: {} })
void engine.execute(right, { scope: 's', key: 'k', input: { amount: 1, more: 1 } })
void engine.execute(right, { scope: 's', key: 'k' })
void engine.execute(right, { key: 'k', input: { amount: 1 } })

other.createEngine({ pool, pipelines: [right] })
const ofOther = other.pipeline<{ amount: number }>({ name: 'other', version: 1 }).finish(() => respond(200))
void engine.execute(ofOther, { scope: 's', key: 'k', input: { amount: 1 } })

const byZod = pipeline({ name: 'z', version: 1, input: z.object({ amount: z.coerce.number() }) }).finish(() =>
  respond(200),
)
void engine.execute(byZod, { scope: 's', key: 'k', input: {} })
const byValibot = pipeline({ name: 'z', version: 1, input: v.object({ amount: v.number() }) }).finish(() =>
  respond(200),
)
void engine.execute(byValibot, { scope: 's', key: 'k', input: { amount: '1' } })
pipeline({ name: 'z', version: 1, input: {} })
pipeline({ name: 'z', version: '1' })
pipeline({ name: 'z' })
pipeline({ name: 'z', version: 1, leaseMS: 1 })
