import {
  absent,
  createEngine,
  type Engine,
  type ExecuteRequest,
  found,
  type JsonValue,
  type Outcome,
  pawl,
  type Pipeline,
  respond,
  retryLater,
  type StoredResponse,
} from '@pawl/core'
import type { Transaction } from 'kysely'
import type pg from 'pg'
import * as v from 'valibot'
import { describe, expectTypeOf, test } from 'vitest'
import { z } from 'zod'

// The compiler does the work here: a mistake fails the build before this runs.

interface Database {
  rides: { id: string; charge_id: string | null }
}
interface LargerDatabase extends Database {
  invoices: { id: string }
}

const { pipeline } = pawl<Database>()
const call = () => ({ id: 'ch' })
const start = pipeline<{ amount: number }>({ name: 'right', version: 1 })

interface Charge {
  readonly id: string
  readonly refunds: readonly { readonly id: string }[]
}
const charge = (): Promise<Charge> => Promise.resolve({ id: 'ch', refunds: [] })

/** The input that execute takes for a pipeline. */
type InputOf<P> = P extends Pipeline<Database, infer Input> ? Input : never

describe('state', () => {
  test('accumulates from phase to phase', () => {
    start
      .local('a', ({ state }) => {
        expectTypeOf(state).toEqualTypeOf<object>()
        return { rideId: '1' }
      })
      .local('b', async ({ state }) => {
        expectTypeOf(state).toEqualTypeOf<{ rideId: string }>()
        return { seats: 2 }
      })
      .foreign('c', {
        call: ({ state }) => {
          expectTypeOf(state).toEqualTypeOf<{ rideId: string; seats: number }>()
          return { id: 'ch' }
        },
        settle: ({ state, result }) => {
          expectTypeOf(state).toEqualTypeOf<{ rideId: string; seats: number }>()
          expectTypeOf(result).toEqualTypeOf<{ id: string }>()
          return { chargeId: result.id }
        },
      })
      .finish(({ state }) => {
        expectTypeOf(state).toEqualTypeOf<{ rideId: string; seats: number; chargeId: string }>()
        return respond(200)
      })
  })

  test('is what settle or whenUnknown returned', () => {
    start
      .foreign('a', {
        call,
        guarantee: 'at_most_once',
        settle: ({ result }) => ({ mail: result.id }),
        whenUnknown: async ({ tx, input }) => {
          expectTypeOf(tx).toEqualTypeOf<Transaction<Database>>()
          expectTypeOf(input).toEqualTypeOf<{ amount: number }>()
          return { mail: null }
        },
      })
      .foreign('b', { call, guarantee: 'at_most_once', whenUnknown: () => ({ perhaps: true }) })
      .foreign('c', { call, guarantee: 'at_most_once', settle: () => ({ sent: true }), whenUnknown: 'stuck' })
      .foreign('d', {
        call,
        guarantee: 'at_most_once',
        settle: () => ({ fax: 1 }),
        whenUnknown: () => respond(202),
      })
      .finish(({ state }) => {
        expectTypeOf(state.mail).toEqualTypeOf<string | null>()
        expectTypeOf(state.perhaps).toEqualTypeOf<boolean | undefined>()
        expectTypeOf(state.sent).toEqualTypeOf<boolean>()
        expectTypeOf(state.fax).toEqualTypeOf<number>()
        return respond(200)
      })
  })

  test('has the type of the last phase that returned a member', () => {
    start
      .local('a', () => ({ seats: '2' }))
      .local('b', () => ({ seats: 2 }))
      .finish(({ state }) => {
        expectTypeOf(state).toEqualTypeOf<{ seats: number }>()
        return respond(200)
      })
  })

  test('stays as it is if a phase returns nothing, or ends the request', () => {
    start
      .local('a', () => ({ rideId: '1' }))
      .local('b', () => {})
      .local('c', async () => undefined)
      .local('d', () => respond(402))
      .foreign('e', { call: () => 1 })
      .finish(({ state }) => {
        expectTypeOf(state).toEqualTypeOf<{ rideId: string }>()
        return respond(200)
      })
  })

  test('has required members if the alternative ends the request', () => {
    start
      .local('a', ({ input }) => (input.amount > 9 ? respond(422) : { rideId: '1' }))
      .local('b', ({ input }) => (input.amount > 9 ? retryLater() : { seats: 2 }))
      .finish(({ state }) => {
        expectTypeOf(state).toEqualTypeOf<{ rideId: string; seats: number }>()
        return respond(200)
      })
  })

  test('has optional members if `when` may skip the phase, or if the phase may return nothing', () => {
    start
      .local('a', () => ({ rideId: '1' }), { when: ({ input }) => input.amount > 9 })
      .local('b', ({ input }) => (input.amount > 9 ? { seats: 2 } : undefined))
      .foreign('c', {
        call: () => ({ id: 'ch' }),
        settle: ({ result }) => ({ chargeId: result.id }),
        when: ({ state }) => state.rideId !== undefined,
      })
      .finish(({ state }) => {
        expectTypeOf(state).toEqualTypeOf<{ rideId?: string; seats?: number; chargeId?: string }>()
        return respond(200)
      })
  })
})

describe('input', () => {
  test('is what fingerprint sees', () => {
    pipeline<{ amount: number }>({
      name: 'typed',
      version: 1,
      fingerprint: (input) => {
        expectTypeOf(input).toEqualTypeOf<{ amount: number }>()
        return input.amount
      },
    })
  })

  test('comes from the type argument, or is any JSON', () => {
    const typed = start.finish(({ input }) => {
      expectTypeOf(input).toEqualTypeOf<{ amount: number }>()
      return respond(200)
    })
    expectTypeOf<InputOf<typeof typed>>().toEqualTypeOf<{ amount: number }>()
    const untyped = pipeline({ name: 'any', version: 1 }).finish(() => respond(200))
    expectTypeOf<InputOf<typeof untyped>>().toEqualTypeOf<JsonValue>()
  })

  test('comes from a zod schema: its input for execute, its output for phases', () => {
    const schema = z.object({ amount: z.number().default(5), note: z.string().optional() })
    const byZod = pipeline({
      name: 'zod',
      version: 1,
      input: schema,
      fingerprint: ({ amount }) => amount ?? 5,
    })
      .local('a', ({ input }) => {
        expectTypeOf(input).toEqualTypeOf<{ amount: number; note?: string | undefined }>()
      })
      .finish(() => respond(200))
    expectTypeOf<InputOf<typeof byZod>>().toEqualTypeOf<{
      amount?: number | undefined
      note?: string | undefined
    }>()
  })

  test('comes from a valibot schema: its input for execute, its output for phases', () => {
    const schema = v.object({ amount: v.optional(v.number(), 5) })
    const byValibot = pipeline({ name: 'valibot', version: 1, input: schema })
      .foreign('a', {
        call: ({ input }) => {
          expectTypeOf(input).toEqualTypeOf<{ amount: number }>()
          return { id: 'ch' }
        },
      })
      .finish(() => respond(200))
    expectTypeOf<InputOf<typeof byValibot>>().toEqualTypeOf<{ amount?: number | undefined }>()
  })

  test('may have an interface type', () => {
    interface Ride {
      readonly from: string
      readonly stops?: readonly { readonly at: string }[]
    }
    const ofInterface = pipeline<Ride>({ name: 'interface', version: 1 }).finish(({ input }) =>
      respond(200, { from: input.from, stops: input.stops }),
    )
    expectTypeOf<InputOf<typeof ofInterface>>().toEqualTypeOf<Ride>()
  })
})

describe('phases', () => {
  test('have a transaction on the database whose type is named once', () => {
    start.local('a', ({ tx }) => {
      expectTypeOf(tx).toEqualTypeOf<Transaction<Database>>()
    })
  })

  test('accept every guarantee with the options that belong to it', () => {
    start
      .foreign('a', { call, guarantee: 'keyed', windowMs: 1, reconcile: () => found({ id: 'ch' }) })
      .foreign('b', { call, guarantee: 'queryable', quietForMs: 0, reconcile: async () => absent() })
      .foreign('c', { call, guarantee: 'at_most_once', leaseMs: 1_000, isolation: 'serializable' })
      .finish(() => retryLater(new Error('not yet'), { afterMs: 1 }))
  })

  test('may call an SDK without types', () => {
    start
      .foreign('a', { call: (): any => null, settle: ({ result }) => ({ id: String(result.id) }) })
      .foreign('b', { call: async (): Promise<any> => null, reference: (result) => String(result.id) })
      .finish(({ state }) => respond(200, { id: state.id }))
  })

  test('accept a function with a declared return type', () => {
    start.foreign('a', {
      call: charge,
      reference: (result) => result.id,
      settle: ({ result }) => ({ charge: result }),
    })
  })
})

describe('reference', () => {
  test('may return nothing if the provider has no name for the effect', () => {
    start
      .foreign('a', { call: charge, reference: ({ refunds }) => refunds[0]?.id })
      .foreign('b', { call: (): { id: string | null } => ({ id: null }), reference: ({ id }) => id })
      .foreign('c', { call, reference: () => undefined })
  })
})

const answer = ({ status, headers, body }: StoredResponse) => new Response(body, { status, headers })

describe('a stored response', () => {
  test('has a body that Response accepts', () => {
    expectTypeOf(answer).returns.toEqualTypeOf<Response>()
    expectTypeOf<StoredResponse['body']>().toExtend<Uint8Array<ArrayBuffer>>()
    expectTypeOf<StoredResponse['body']>().toExtend<Buffer>()
  })
})

// This is never called: only its types matter.
async function executes(engine: Engine<Database>, right: Pipeline<Database, { amount: number }>) {
  const outcome = await engine.execute(right, { scope: 's', key: 'k', input: { amount: 1 } })
  switch (outcome.type) {
    case 'completed':
    case 'replayed':
      return outcome.response.status
    case 'in_flight':
      return outcome.retryAfterMs
    case 'mismatch':
      return outcome.differs
    case 'limited':
      return outcome.retryAfterMs
    case 'expired':
      return outcome.settledAt
    case 'retry_later':
      return outcome.response?.status ?? outcome.reason
    case 'stuck':
      return outcome.reason
    case 'refused':
      return outcome.detail
    case 'unavailable':
      return outcome.error
    default:
      return outcome satisfies never
  }
}

describe('the engine', () => {
  test('returns an outcome that can be switched over exhaustively', () => {
    expectTypeOf(executes).returns.resolves.toBeUnknown()
    expectTypeOf<Outcome['type']>().toEqualTypeOf<
      | 'completed'
      | 'replayed'
      | 'in_flight'
      | 'mismatch'
      | 'expired'
      | 'limited'
      | 'retry_later'
      | 'stuck'
      | 'refused'
      | 'unavailable'
    >()
  })

  test('checks the input of execute against the pipeline', () => {
    expectTypeOf<ExecuteRequest<{ amount: number }>['input']>().toEqualTypeOf<{ amount: number }>()
  })

  test('accepts pipelines of its database, or of a part of it, and no others', () => {
    const right = start.finish(() => respond(200))
    expectTypeOf(right).toEqualTypeOf<Pipeline<Database, { amount: number }>>()
    const open = (pool: pg.Pool) => [
      createEngine<Database>({ pool, pipelines: [right] }),
      createEngine<LargerDatabase>({ pool, pipelines: [right] }),
      pawl<Database>().createEngine({ pool, pipelines: [right] }),
    ]
    expectTypeOf(open).returns.toExtend<Engine<Database>[] | (Engine<Database> | Engine<LargerDatabase>)[]>()
    expectTypeOf<Pipeline<LargerDatabase, null>>().not.toExtend<Pipeline<Database, null>>()
  })
})
