import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { fakeProvider } from '@pawl/crash-kit'
import { expect, inject, test } from 'vitest'
import { runCase } from '../../packages/crash-kit/src/case/run-case.js'
import { skewed } from '../../packages/crash-kit/src/cast/skew.js'
import { FAULTS } from '../../packages/crash-kit/src/faults/all.js'
import type { Fault } from '../../packages/crash-kit/src/faults/fault.js'
import { gate } from '../support/signals.js'
import { openTrial } from './process-trial.js'
import { rideAt, rideKit } from './ride-kit.js'

const FAULT_BY_ID = new Map<string, Fault>(
  Object.values(FAULTS)
    .flat()
    .map((fault) => [fault.id, fault]),
)
const faultOf = (id: string) => FAULT_BY_ID.get(id) as Fault

test('cases that are asked for at once run one after the other', async () => {
  const kit = rideKit()
  await Promise.all([
    kit.replay('crash@charge_created/call#1:after'),
    kit.replay('freeze@ride_created/commit#1:after'),
    kit.races({ runs: 3, actors: ['client', 'completer'] }),
  ])
  expect(kit.casesRun).toBe(5)
  await kit.close()
})

test('two kits may share a provider, whichever is closed first', async () => {
  const provider = fakeProvider()
  const [one, other] = [rideKit({}, provider), rideKit({ pipeline: rideAt(provider) }, provider)]
  await one.replay('no faults')
  await other.replay('no faults')
  await one.close()
  await other.replay('crash@charge_created/call#1:after')
  await other.close()
  await expect(provider.send({})).rejects.toMatchObject({ code: 'PAWL_KIT_NOT_STARTED' })
})

test('in a script, the same methods run at once, though vitest is installed', async () => {
  const script = fileURLToPath(new URL('fixtures/crash-script.mjs', import.meta.url))
  const { VITEST: _, ...env } = process.env
  const { stdout } = await promisify(execFile)(process.execPath, [script, inject('databaseUrl')], { env })
  expect(stdout.trim()).toMatch(/^[1-9]\d* cases$/)
})

test('a clock that is off is so for whoever it belongs to, and for no longer', async () => {
  const RealDate = Date
  const hourMs = 3_600_000
  const end = gate()
  const offset = () => Math.round((Date.now() - RealDate.now()) / hourMs)
  const first = skewed(hourMs, async () => {
    await end.opened
    return offset()
  })
  expect(await skewed(-2 * hourMs, async () => [offset(), new Date().getTime() < RealDate.now()])).toEqual([
    -2,
    true,
  ])
  expect(offset()).toBe(0)
  end.open()
  expect(await first).toBe(1)
  expect(Date).toBe(RealDate)
})

test('what a crash leaves is not what a failure leaves at the same point; two crashes in one phase leave the same', async () => {
  const { theatre } = await openTrial()
  const leftBy = async (fault: string, at: string) =>
    (await runCase(theatre, [{ attempt: 0, fault, at }], faultOf)).leftBehind
  const crashed = await leftBy('crash', 'charge_created/commit#1:after')
  expect(await leftBy('throw', 'finished/begin#1:before')).not.toBe(crashed)
  expect(await leftBy('crash', 'finished/commit#1:before')).toBe(crashed)
})
