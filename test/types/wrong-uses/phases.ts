import { respond } from '@pawl/core'
import { sql } from 'kysely'
import { pipeline } from './database.js'

const start = pipeline<{ amount: number }>({ name: 'wrong', version: 1 })
const withRide = start.local('ride_created', () => ({ rideId: '1' }))

// What a phase returns:

// error: a phase returns an object that is merged into the state, or respond(), or retryLater()
start.local('a', () => [1])
// error: a phase returns an object that is merged into the state, or respond(), or retryLater()
start.local('a', () => 'text')
// error: a phase returns an object that is merged into the state, or respond(), or retryLater()
start.local('a', async () => 1)
// error: a phase returns an object that is merged into the state, or respond(), or retryLater()
start.foreign('a', { call: () => ({ id: '1' }), settle: () => ['1'] })
// error: Type '{ status: number; }' is not assignable to type 'MaybePromise<Respond | RetryLater>'
start.finish(() => ({ status: 200 }))
// error: Type '{ status: number; }' is not assignable to type 'Respond | RetryLater'
start.finish(async () => ({ status: 200 }))
// error: Type 'void' is not assignable to type 'MaybePromise<Respond | RetryLater>'
start.finish(() => {})

// Exactly one call:

// error: Property 'call' is missing
start.foreign('a', { settle: () => ({}) })
// error: 'call2' does not exist
start.foreign('a', { call: () => 1, call2: () => 2 })
// error: Type '(() => number)[]' is not assignable
start.foreign('a', { call: [() => 1, () => 2] })

// No transaction outside of one:

// error: Property 'tx' does not exist on type 'CallContext<
start.foreign('a', { call: ({ tx }) => tx })
// error: Property 'stage' does not exist on type 'CallContext<
start.foreign('a', { call: ({ stage }) => stage('job', {}) })
// error: Property 'tx' does not exist on type 'PhaseContext<
start.local('a', () => {}, { when: ({ tx }) => tx !== null })

// error: Property 'write' does not exist on type 'CallContext<
start.foreign('a', { call: ({ write }) => write })

// Only writes, and none whose result is wanted:

// error: is not assignable to parameter of type 'Writing'
start.local('a', ({ tx, write }) => write(tx.selectFrom('rides').selectAll()))
// error: is not assignable to parameter of type 'Writing'
start.local('a', ({ tx, write }) => write(tx.deleteFrom('rides').returning('id')))
// error: Type 'Promise<DeleteResult[]>' is missing the following properties from type 'Writing'
start.local('a', ({ tx, write }) => write(tx.deleteFrom('rides').execute()))
// error: is not assignable to parameter of type 'Writing'
start.local('a', ({ write }) => write(sql`DELETE FROM rides`))

// Only what earlier phases left:

// error: Property 'rideId' does not exist
start.foreign('a', { call: () => ({ id: '1' }), settle: ({ state }) => ({ id: state.rideId }) })
// error: Property 'ride' does not exist on type '{ rideId: string; }'
withRide.foreign('a', { call: () => ({ id: '1' }), settle: ({ state }) => ({ id: state.ride }) })
// error: Property 'ride' does not exist on type '{ rideId: string; }'
withRide.finish(({ state }) => respond(200, { id: state.ride }))
// error: Property 'amount' does not exist on type '{ id: string; }'
start.foreign('a', { call: () => ({ id: '1' }), settle: ({ result }) => ({ amount: result.amount }) })
// error: Property 'to' does not exist on type '{ amount: number; }'
start.local('a', ({ input }) => ({ to: input.to }))
// error: Argument of type '"nowhere"' is not assignable
start.local('a', ({ tx }) => void tx.selectFrom('nowhere'))

// Names:

// error: there is already a phase 'ride_created': phase names are unique
withRide.local('ride_created', () => {})
// error: there is already a phase 'ride_created': phase names are unique
withRide.foreign('ride_created', { call: () => 1 })
// error: 'started' is a reserved recovery point: choose another phase name
start.local('started', () => {})
// error: 'finished' is a reserved recovery point: choose another phase name
start.local('finished', () => {})
// error: 'finished' is a reserved recovery point: choose another phase name
start.foreign('finished', { call: () => 1 })
// error: a phase name is a string literal
start.local(String('a'), () => {})

// Guarantees and what goes with them:

// error: Property 'reconcile' is missing
start.foreign('a', { call: () => 1, guarantee: 'queryable' })
// error: Types of property 'windowMs' are incompatible
start.foreign('a', { call: () => 1, guarantee: 'at_most_once', windowMs: 1 })
// error: Type '"sometimes"' is not assignable to type '"at_most_once" | "keyed" | "queryable"'
start.foreign('a', { call: () => 1, guarantee: 'sometimes' })

// Going on without a call:

// error: Type '() => {}' is not assignable to type '"stuck" |
start.foreign('a', { call: () => 1, guarantee: 'keyed', whenUnknown: () => ({}) })
// error: Type '"go on"' is not assignable to type
start.foreign('a', { call: () => 1, guarantee: 'at_most_once', whenUnknown: 'go on' })
// error: a phase returns an object that is merged into the state, or respond(), or retryLater()
start.foreign('a', { call: () => 1, guarantee: 'at_most_once', whenUnknown: () => 'text' })
// error: Property 'result' does not exist on type 'TransactionContext<
start.foreign('a', { call: () => 1, guarantee: 'at_most_once', whenUnknown: ({ result }) => ({ result }) })

// What is an answer:

// error: Type 'boolean' is not assignable to type '(error: unknown) => boolean'
start.foreign('a', { call: () => 1, onError: () => respond(402), isAnswer: true })
// error: Type 'Promise<boolean>' is not assignable to type 'boolean'
start.foreign('a', { call: () => 1, onError: () => respond(402), isAnswer: async () => true })
// error: 'error' is of type 'unknown'
start.foreign('a', { call: () => 1, onError: () => respond(402), isAnswer: (error) => error.status === 402 })

// The finish always runs:

// error: 'when' does not exist in type 'PhaseSettings'
start.finish(() => respond(200), { when: () => true })
