import { crashKit } from '@pawl/crash-kit'
import { pawl, respond } from '@pawl/core'
import { expect, test } from 'vitest'
import { whereabouts } from './ride-kit.js'

const kit = crashKit({
  pipeline: pawl()
    .pipeline({ name: 'ping', version: 1 })
    .finish(() => respond(200, { pong: true })),
  pool: whereabouts(),
  prepare: async () => {},
  request: { scope: 'caller-1', input: {} },
  child: { module: new URL('./fixtures/ping-child.mjs', import.meta.url) },
})

// Declares the tests, as in a user's own file.
await kit.exhaustive({ faults: ['crash'], mode: 'process' })

test('every case was run, and every crash was one of a process', () => {
  expect(kit.casesRun).toBeGreaterThanOrEqual(8)
  expect(kit.coverage()).toMatch(new RegExp(`^crash +${kit.casesRun} +${kit.casesRun}$`, 'm'))
})
