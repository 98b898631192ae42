import { fork } from 'node:child_process'
import { channel, subscribe as subscribeRaw, unsubscribe as unsubscribeRaw } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { type PawlMessages, pawlChannels, subscribe } from '@pawl/core'
import { expect, expectTypeOf, test, vi } from 'vitest'
import { announce } from '../../packages/core/src/announce/announce.js'

const THROWING_LISTENERS = fileURLToPath(new URL('../fixtures/throwing-listeners.mjs', import.meta.url))
const message = { message: 'look', error: null }
const warn = () => announce('pawl:warning', () => message)

test('subscribe knows the type of each message', () => {
  const stop = subscribe('pawl:stuck', (stuck) => {
    expectTypeOf(stuck).toEqualTypeOf<PawlMessages['pawl:stuck']>()
    expectTypeOf(stuck.keyId).toBeString()
  })
  stop()
})

test('listeners hear messages until they stop, whichever function they subscribed through', () => {
  const heard: unknown[] = []
  const raw = (got: unknown, name: string | symbol) => heard.push(['raw', got, name])
  const stop = subscribe('pawl:warning', (got) => heard.push(['typed', got]))
  subscribeRaw('pawl:warning', raw)
  warn()
  expect(heard).toEqual([
    ['typed', message],
    ['raw', message, 'pawl:warning'],
  ])
  stop()
  warn()
  expect(heard).toHaveLength(3)
  expect(unsubscribeRaw('pawl:warning', raw)).toBe(true)
  expect(unsubscribeRaw('pawl:warning', raw)).toBe(false)
  warn()
  expect(heard).toHaveLength(3)
  expect(channel('pawl:warning').hasSubscribers).toBe(false)
})

test('a channel that has lost all its listeners can be listened to again', () => {
  for (let round = 0; round < 3; round++) {
    let heard = 0
    const stop = subscribe('pawl:warning', () => heard++)
    warn()
    expect(heard).toBe(1)
    stop()
    stop()
  }
})

test('a listener that subscribed twice hears every message twice, and has to unsubscribe twice', () => {
  let heard = 0
  const listener = () => heard++
  const stops = [subscribe('pawl:warning', listener), subscribe('pawl:warning', listener)]
  warn()
  expect(heard).toBe(2)
  stops[0]?.()
  warn()
  expect(heard).toBe(3)
  stops[1]?.()
  warn()
  expect(heard).toBe(3)
})

test('no message is built while nobody listens', () => {
  let built = 0
  const build = () => {
    built++
    return message
  }
  announce('pawl:warning', build)
  expect(built).toBe(0)
  const stop = subscribe('pawl:warning', () => {})
  announce('pawl:warning', build)
  stop()
  announce('pawl:warning', build)
  expect(built).toBe(1)
})

test('anything but a function is refused, as in Node', () => {
  expect(() => subscribe('pawl:warning', 'x' as never)).toThrow(
    expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' }),
  )
})

test('every channel has its own name, which starts with pawl:', () => {
  expect(new Set(pawlChannels).size).toBe(pawlChannels.length)
  expect(pawlChannels.filter((name) => !/^pawl:[a-z_]+$/.test(name))).toEqual([])
})

test('listeners that throw, now or later, end neither the process nor the request, and are reported as a warning', async () => {
  const child = fork(THROWING_LISTENERS, { execArgv: [], stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
  let complaints = ''
  child.stderr?.on('data', (chunk: Buffer) => {
    complaints += chunk.toString()
  })
  const told = once(child, 'message') as Promise<[{ outcome: string; heard: string[]; warnings: string[] }]>
  const exited = once(child, 'exit') as Promise<[number | null]>
  const [report] = await Promise.race([told, exited.then(() => [complaints] as const)])
  expect(report).toEqual({
    outcome: 'unavailable',
    heard: ['subscribe', 'async', 'raw', 'channel', 'last'],
    warnings: expect.arrayContaining([
      'A listener of pawl:unavailable threw: thrown',
      'A listener of pawl:unavailable threw: rejected',
      'A listener of pawl:unavailable threw: null',
      'A listener of pawl:unavailable threw: (a message of type object)',
      'A listener of pawl:unavailable threw: undefined',
      'A listener of pawl:unavailable threw: non-error thrown: object',
    ]),
  })
  expect((await exited)[0]).toBe(0)
})

test('a second copy of the package in one process shares the channels', async () => {
  vi.resetModules()
  const copy = await import('../../packages/core/src/announce/announce.js')
  expect(copy.announce).not.toBe(announce)
  const heard: unknown[] = []
  const stop = copy.subscribe('pawl:warning', (heardMessage) => void heard.push(heardMessage))
  warn()
  stop()
  warn()
  expect(heard).toEqual([message])
})
