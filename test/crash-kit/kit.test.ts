import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { fakeProvider } from '@pawl/crash-kit'
import { expect, inject, test } from 'vitest'
import { runCase } from '../../packages/crash-kit/src/case/run-case.js'
import { withSkewedClock } from '../../packages/crash-kit/src/actors/with-skewed-clock.js'
import { FAULTS } from '../../packages/crash-kit/src/faults/faults.js'
import type { Fault } from '../../packages/crash-kit/src/faults/fault.js'
import { gate } from '../support/signals.js'
import { openKit } from './open-kit.js'
import { rideAt, rideKit } from './ride-kit.js'
import { onlyDeep } from '../support/amounts.js'

const FAULT_BY_ID = new Map<string, Fault>(
  Object.values(FAULTS)
    .flat()
    .map((fault) => [fault.id, fault]),
)
const faultOf = (id: string) => FAULT_BY_ID.get(id) as Fault

test('cases that are requested at the same time run one after the other', async () => {
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

onlyDeep(() => {
  test('in a script, the same methods run the cases at once, even if vitest is installed', async () => {
    const script = fileURLToPath(new URL('fixtures/crash-script.mjs', import.meta.url))
    const { VITEST: _, ...env } = process.env
    const { stdout } = await promisify(execFile)(process.execPath, [script, inject('databaseUrl')], { env })
    expect(stdout.trim()).toMatch(/^[1-9]\d* cases$/)
  })
})

test('a skewed clock is skewed only for its owner, and only while it runs', async () => {
  const RealDate = Date
  const hourMs = 3_600_000
  const end = gate()
  // A millisecond may pass between the two clocks, and rounding makes it a negative zero.
  const offset = () => Math.round((Date.now() - RealDate.now()) / hourMs) + 0
  const first = withSkewedClock(hourMs, async () => {
    await end.opened
    return offset()
  })
  expect(
    await withSkewedClock(-2 * hourMs, async () => [offset(), new Date().getTime() < RealDate.now()]),
  ).toEqual([-2, true])
  expect(offset()).toBe(0)
  end.open()
  expect(await first).toBe(1)
  expect(Date).toBe(RealDate)
})

onlyDeep(() => {
  test('a crash and a failure at the same point leave different remains; two crashes in one phase leave the same', async () => {
    const { environment } = await openKit()
    const leftBy = async (fault: string, at: string) =>
      (await runCase(environment, [{ attempt: 0, fault, at }], faultOf)).leftBehind
    const crashed = await leftBy('crash', 'charge_created/commit#1:after')
    expect(await leftBy('throw', 'finished/begin#1:before')).not.toBe(crashed)
    expect(await leftBy('crash', 'finished/commit#1:before')).toBe(crashed)
  })
})
