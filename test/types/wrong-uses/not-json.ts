import { respond } from '@pawl/core'
import * as v from 'valibot'
import { z } from 'zod'
import { pipeline } from './database.js'

const start = pipeline<{ amount: number }>({ name: 'wrong', version: 1 })

// State, returned by a local phase:

// error: a Date is not JSON: keep date.toISOString()
start.local('a', () => ({ at: new Date() }))
// error: a Date is not JSON: keep date.toISOString()
start.local('a', async () => ({ at: new Date() }))
// error: a Date is not JSON: keep date.toISOString()
start.local('a', () => ({ deep: { list: [{ at: new Date() }] } }))
// error: a bigint is not JSON: keep a string
start.local('a', () => ({ cents: 1n }))
// error: a function is not JSON: keep plain data
start.local('a', () => ({ later: () => 1 }))
// error: a Map or Set is not JSON: keep an array or a plain object
start.local('a', () => ({ map: new Map([['a', 1]]) }))
// error: a Map or Set is not JSON: keep an array or a plain object
start.local('a', () => ({ set: new Set([1]) }))
// error: a binary buffer is not JSON: keep a base64 string
start.local('a', () => ({ bytes: Buffer.from('a') }))
// error: a symbol is not JSON: keep a string
start.local('a', () => ({ tag: Symbol('a') }))
// error: a value of unknown type is not JSON: give it a JSON type
start.local('a', () => ({ what: JSON.parse('1') as unknown }))

// State, returned by settle:

// error: a Date is not JSON: keep date.toISOString()
start.foreign('a', { call: () => ({ id: '1' }), settle: () => ({ at: new Date() }) })
// error: a bigint is not JSON: keep a string
start.foreign('a', { call: () => ({ id: '1' }), settle: async () => ({ cents: 1n }) })

// The result of a call:

// error: a Date is not JSON: keep date.toISOString()
start.foreign('a', { call: () => ({ at: new Date() }) })
// error: a bigint is not JSON: keep a string
start.foreign('a', { call: async () => ({ cents: 1n }) })
// error: a function is not JSON: keep plain data
start.foreign('a', { call: () => ({ later: () => 1 }) })
// error: a Map or Set is not JSON: keep an array or a plain object
start.foreign('a', { call: () => new Map<string, string>() })
// error: a value of unknown type is not JSON: give it a JSON type
start.foreign('a', { call: () => JSON.parse('1') as unknown })

// The input, as a type:

// error: the input's type is not JSON: it is stored
pipeline<{ at: Date }>({ name: 'wrong', version: 1 })
// error: the input's type is not JSON: it is stored
pipeline<{ cents: bigint }>({ name: 'wrong', version: 1 })
// error: the input's type is not JSON: it is stored
pipeline<{ later: () => void }>({ name: 'wrong', version: 1 })
// error: the input's type is not JSON: it is stored
pipeline<Map<string, string>>({ name: 'wrong', version: 1 })
// error: the input's type is not JSON: it is stored
pipeline<{ what: unknown }>({ name: 'wrong', version: 1 })

// The input, as a schema: its output is what is stored.

// error: the schema's output is not JSON: it is stored
pipeline({ name: 'wrong', version: 1, input: z.object({ at: z.date() }) })
// error: the schema's output is not JSON: it is stored
pipeline({ name: 'wrong', version: 1, input: v.object({ at: v.date() }) })
// error: the schema's output is not JSON: it is stored
pipeline({ name: 'wrong', version: 1, input: z.string().transform((at) => new Date(at)) })

// The response:

// error: a Date is not JSON: keep date.toISOString()
respond(200, { at: new Date() })
// error: a bigint is not JSON: keep a string
respond(200, { cents: 1n })
// error: a function is not JSON: keep plain data
respond(200, () => 1)
// error: a Map or Set is not JSON: keep an array or a plain object
respond(200, new Map<string, string>())
// error: a value of unknown type is not JSON: give it a JSON type
respond(200, JSON.parse('1') as unknown)

// The payload of a job:

start.finish(async ({ stage }) => {
  // error: a Date is not JSON: keep date.toISOString()
  await stage('job', { at: new Date() })
  // error: a bigint is not JSON: keep a string
  await stage('job', { cents: 1n })
  // error: a function is not JSON: keep plain data
  await stage('job', { later: () => 1 })
  // error: a Map or Set is not JSON: keep an array or a plain object
  await stage('job', new Map<string, string>())
  // error: a value of unknown type is not JSON: give it a JSON type
  await stage('job', JSON.parse('1') as unknown)
  return respond(200)
})
