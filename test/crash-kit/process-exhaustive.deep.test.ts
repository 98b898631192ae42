import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { crashKit } from '@pawl/crash-kit'
import { pawl, respond } from '@pawl/core'
import { afterAll, expect, test } from 'vitest'
import { whereabouts } from './ride-kit.js'
import { LAYOUT } from '../support/layout.js'

const folder = await mkdtemp(join(tmpdir(), 'pawl-ping-'))
afterAll(() => rm(folder, { recursive: true }))
const witness = join(folder, 'witness')
process.env['PING_WITNESS'] = witness

const kit = crashKit({
  pipeline: pawl()
    .pipeline({ name: 'ping', version: 1 })
    .finish(() => respond(200, { pong: true })),
  pool: whereabouts(),
  ...LAYOUT,
  prepare: async () => {},
  request: { scope: 'caller-1', input: {} },
  child: { module: new URL('./fixtures/ping-child.mjs', import.meta.url) },
})

// Declares the tests, as in a user's own file.
await kit.exhaustive({ faults: ['crash'], mode: 'process' })

test('every case was run, and every crash was that of a child process', async () => {
  expect(kit.casesRun).toBeGreaterThanOrEqual(6)
  expect(kit.coverage()).toMatch(new RegExp(`^crash +${kit.casesRun} +${kit.casesRun}$`, 'm'))
  const processes = (await readFile(witness, 'utf8')).trimEnd().split('\n')
  // One more has checked that the module does what the kit does.
  expect(processes).toHaveLength(kit.casesRun + 1)
  expect(processes).not.toContain(String(process.pid))
})
