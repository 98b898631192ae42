import { createBackground, createEngine, respond } from '@pawl/core'
import * as v from 'valibot'
import { z } from 'zod'
import { engine, other, pipeline, pool, right } from './database.js'

const builder = pipeline<{ amount: number }>({ name: 'unfinished', version: 1 }).local('a', () => {})

// A builder is not a pipeline:

// error: [madeByFinish]
createEngine({ pool, pipelines: [builder] })
// error: [madeByFinish]
void engine.execute(builder, { scope: 's', key: 'k', input: { amount: 1 } })

// Another database:

const ofOther = other.pipeline<{ amount: number }>({ name: 'other', version: 1 }).finish(() => respond(200))
// error: Property 'rides' is missing in type 'OtherDatabase' but required in type 'Database'
other.createEngine({ pool, pipelines: [right] })
// error: Property 'invoices' is missing in type 'Database' but required in type 'OtherDatabase'
void engine.execute(ofOther, { scope: 's', key: 'k', input: { amount: 1 } })

// The input of execute:

// error: Type 'string' is not assignable to type 'number'
void engine.execute(right, { scope: 's', key: 'k', input: { amount: '1' } })
// error: Property 'amount' is missing
void engine.execute(right, { scope: 's', key: 'k', input: {} })
// error: 'more' does not exist in type '{ amount: number; }'
void engine.execute(right, { scope: 's', key: 'k', input: { amount: 1, more: 1 } })
// error: Property 'input' is missing
void engine.execute(right, { scope: 's', key: 'k' })
// error: Property 'scope' is missing
void engine.execute(right, { key: 'k', input: { amount: 1 } })

const byZod = pipeline({ name: 'zod', version: 1, input: z.object({ amount: z.number() }) })
// error: Type 'string' is not assignable to type 'number'
void engine.execute(
  byZod.finish(() => respond(200)),
  { scope: 's', key: 'k', input: { amount: '1' } },
)
const byValibot = pipeline({ name: 'valibot', version: 1, input: v.object({ amount: v.number() }) })
// error: Type 'string' is not assignable to type 'number'
void engine.execute(
  byValibot.finish(() => respond(200)),
  { scope: 's', key: 'k', input: { amount: '1' } },
)

// The options of a pipeline:

// error: Property '"~standard"' is missing
pipeline({ name: 'wrong', version: 1, input: {} })
// error: Type 'string' is not assignable to type 'number'
pipeline({ name: 'wrong', version: '1' })
// error: Property 'version' is missing
pipeline({ name: 'wrong' })
// error: Did you mean to write 'leaseMs'?
pipeline({ name: 'wrong', version: 1, leaseMS: 1 })
// error: Type '"dirty read"' is not assignable to type '"read committed" | "repeatable read" | "serializable"'
pipeline({ name: 'wrong', version: 1, isolation: 'dirty read' })

// Background services:

// error: Property 'engine' is missing
createBackground({})
// error: Did you mean to write 'pollMs'?
createBackground({ engine, completer: { pollMS: 1 } })
// error: Type 'true' is not assignable to type 'false | CompleterOptions'
createBackground({ engine, completer: true })
// error: Property 'sink' is missing
createBackground({ engine, relay: {} })
// error: Type 'string' is not assignable to type 'Delivery'
createBackground({ engine, relay: { sink: { deliver: async () => ['delivered'] } } })
// error: Type 'string' is not assignable to type 'number'
void engine.enqueue(right, { scope: 's', key: 'k', input: { amount: '1' } })
