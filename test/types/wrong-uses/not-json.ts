import { respond } from '@pawl/core'
import * as v from 'valibot'
import { z } from 'zod'
import { pipeline } from './database.js'

const start = pipeline<{ amount: number }>({ name: 'wrong', version: 1 })

class Money {
  readonly cents = 1n
}

// State returned by a local phase
start.local('a', () => ({ at: new Date() }))
start.local('a', () => ({ cents: 1n }))
start.local('a', () => ({ later: () => 1 }))
start.local('a', () => ({ map: new Map([['a', 1]]) }))
start.local('a', () => ({ set: new Set([1]) }))
start.local('a', () => ({ bytes: Buffer.from('a') }))
start.local('a', () => ({ what: JSON.parse('1') as unknown }))
start.local('a', () => ({ tag: Symbol('a') }))
start.local('a', () => ({ deep: { list: [{ at: new Date() }] } }))
start.local('a', async () => ({ at: new Date() }))
start.local('a', () => ({ money: new Money() }))

// Input
pipeline<{ at: Date }>({ name: 'wrong', version: 1 })
pipeline<{ cents: bigint }>({ name: 'wrong', version: 1 })
pipeline<{ later: () => void }>({ name: 'wrong', version: 1 })
pipeline<Map<string, string>>({ name: 'wrong', version: 1 })
pipeline<{ what: unknown }>({ name: 'wrong', version: 1 })
pipeline({ name: 'wrong', version: 1, input: z.object({ at: z.date() }) })
pipeline({ name: 'wrong', version: 1, input: v.object({ at: v.date() }) })
pipeline({
  name: 'wrong',
  version: 1,
  input: z.object({ at: z.iso.datetime().transform((at) => new Date(at)) }),
})

// Response
respond(200, { at: new Date() })
respond(200, { cents: 1n })
respond(200, () => 1)
respond(200, new Map())
respond(200, JSON.parse('1') as unknown)

// Call result
start.foreign('a', { call: () => ({ at: new Date() }) })
start.foreign('a', { call: async () => ({ cents: 1n }) })
start.foreign('a', { call: () => ({ later: () => 1 }) })
start.foreign('a', { call: () => new Map<string, string>() })
start.foreign('a', { call: () => JSON.parse('1') as unknown })

// settle
start.foreign('a', { call: () => ({ id: '1' }), settle: () => ({ at: new Date() }) })
start.foreign('a', { call: () => ({ id: '1' }), settle: async () => ({ cents: 1n }) })

// Jobs
start.finish(async ({ stage }) => {
  await stage('job', { at: new Date() })
  await stage('job', { cents: 1n })
  await stage('job', { later: () => 1 })
  await stage('job', new Map())
  await stage('job', JSON.parse('1') as unknown)
  return respond(200)
})
