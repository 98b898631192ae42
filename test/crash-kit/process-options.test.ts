import { expect, test } from 'vitest'
import { readExhaustiveOptions } from '../../packages/crash-kit/src/explore/exhaustive-options.js'
import { crash } from '../../packages/crash-kit/src/faults/crash.js'
import { formatReplay, parseReplay } from '../../packages/crash-kit/src/plan/replay-line.js'
import { checkChildOptions } from '../../packages/crash-kit/src/process/child-options.js'
import { sendableOptions } from '../../packages/crash-kit/src/process/sendable.js'
import { RIDE_CHILD } from './open-kit.js'
import { rideKit } from './ride-kit.js'
import { onlyDeep } from '../support/amounts.js'

const child = { module: RIDE_CHILD }
const both = { hasProvider: true, hasChild: true }

test('in child processes, only crash strikes', () => {
  const wanted = { faults: [crash], depth: 1, mode: 'process' }
  expect(readExhaustiveOptions({ mode: 'process' }, both)).toEqual(wanted)
  expect(readExhaustiveOptions({ mode: 'process', faults: ['crash'] }, both)).toEqual(wanted)
  expect(readExhaustiveOptions({ mode: 'process', depth: 2 }, both)).toEqual({ ...wanted, depth: 2 })
})

test('other faults are refused there, and so is mode process without a child', async () => {
  const kit = rideKit({ child })
  await expect(kit.exhaustive({ mode: 'process', faults: ['crash', 'freeze'] })).rejects.toThrow(
    "exhaustive: faults is 'freeze'; it takes only 'crash' in mode 'process'; pass the others in a call of their own.",
  )
  await expect(kit.exhaustive({ mode: 'threads' as never })).rejects.toThrow(
    "exhaustive: mode is 'threads'; it takes one of 'in-process', 'process'.",
  )
  await expect(rideKit().exhaustive({ mode: 'process' })).rejects.toThrow(
    "exhaustive: mode is 'process'; it takes 'in-process', unless crashKit has a child.",
  )
})

test.each([
  [{ module: './child.mjs' }, 'module'],
  [{ module: undefined }, 'module'],
  [{ module: new URL('https://example.test/child.mjs') }, 'module'],
  [{ ...child, execArgv: '--import tsx' }, 'execArgv'],
  [{ ...child, args: [] }, 'args'],
])('crashKit refuses the child %o', (wrong, option) => {
  expect(() => rideKit({ child: wrong as never })).toThrow(new RegExp(`crashKit: child: .*${option}`))
})

test('a module is given by its URL, or by an absolute path', () => {
  const { href } = new URL('file:///rides/my%20child.mjs')
  for (const module of [new URL(href), href, '/rides/my child.mjs']) {
    expect(checkChildOptions({ module })).toEqual({ module: href, execArgv: [] })
  }
})

test('plain data and bytes can be sent; what contains a function or an instance of a class cannot', () => {
  const bytes = Buffer.from('certificate')
  const options = {
    host: 'db',
    port: 5432,
    ssl: { ca: [bytes] },
    nothing: undefined,
    not: null,
    over: { a: [() => 1] },
  }
  expect(sendableOptions({ ...options, at: new URL('file:///'), hook: () => {} })).toEqual({
    options: { host: 'db', port: 5432, ssl: { ca: [bytes] }, not: null },
    leftOut: ['over', 'at', 'hook'],
  })
})

test('a replay line shows that its crashes are those of child processes', () => {
  const plan = [{ attempt: 0, fault: 'crash', at: 'charge_created/call#1:after' }]
  const line = 'process: crash@charge_created/call#1:after'
  expect(formatReplay({ kind: 'plan', plan, mode: 'process' })).toBe(line)
  expect(parseReplay(line)).toEqual({ kind: 'plan', plan, mode: 'process' })
  expect(parseReplay('process: no faults')).toEqual({ kind: 'plan', plan: [], mode: 'process' })
  expect(formatReplay({ kind: 'plan', plan: [], mode: 'process' })).toBe('process: no faults')
})

onlyDeep(() => {
  test('the kit replays such a line in child processes, if it can', async () => {
    const kit = rideKit({ child })
    await kit.replay('process: crash@charge_created/call#1:after; recovery 1: crash@finished/commit#1:before')
    await expect(kit.replay('process: throw@charge_created/call#1:after')).rejects.toThrow(
      "'throw' cannot strike in a child process: only 'crash' can.",
    )
    await expect(kit.replay('process: crash@charge_created/call#7:after')).rejects.toThrow('never fired')
    await kit.close()
    await expect(rideKit().replay('process: no faults')).rejects.toThrow('pass `child` to crashKit')
  })
})
