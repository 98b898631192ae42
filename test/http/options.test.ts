import fastifyPawl from '@pawl/fastify'
import Fastify, { type FastifyInstance } from 'fastify'
import { describe, expect, onTestFinished, test } from 'vitest'
import { idleEngine } from '../support/idle-engine.js'

const right = { engine: idleEngine(), scope: () => 'ann' }

function open(): FastifyInstance {
  const app = Fastify()
  onTestFinished(() => app.close())
  return app
}

/** Fastify's own `register` returns something that can be awaited, but is not a promise. */
async function register(app: FastifyInstance, options: object): Promise<void> {
  await app.register(fastifyPawl, options as never)
}

/** What is wrong, and what the error has to say about it. */
type Mistake = readonly [wrong: object, message: string]

const pluginMistakes: Mistake[] = [
  [{ engine: undefined }, 'engine is undefined; it takes what createEngine returns'],
  [{ engine: {} }, 'engine is an object; it takes what createEngine returns'],
  [{ scope: undefined }, 'scope is undefined; it takes a function'],
  [{ scope: 'user' }, "scope is 'user'; it takes a function"],
  [{ header: '' }, "header is ''; it takes the name of a header"],
  [{ header: 'idempotency key' }, "header is 'idempotency key'; it takes the name of a header"],
  [{ header: 5 }, 'header is 5; it takes the name of a header'],
  [{ keyScope: 'global' }, "keyScope is 'global'; it takes one of 'account', 'route'"],
  [{ keyScope: null }, "keyScope is null; it takes one of 'account', 'route'"],
  [{ onConflict: 'wait' }, "onConflict is 'wait'; it takes 'reject' or { waitMs }"],
  [{ onConflict: null }, "onConflict is null; it takes 'reject' or { waitMs }"],
  [{ onConflict: {} }, 'onConflict: waitMs is null; it takes a whole number of 1 or more'],
  [{ onConflict: { waitMs: 0 } }, 'onConflict: waitMs is 0; it takes a whole number of 1 or more'],
  [{ onConflict: { waitMs: 1.5 } }, 'onConflict: waitMs is 1.5; it takes a whole number of 1 or more'],
  [{ onConflict: { waitMs: 600_001 } }, 'onConflict: waitMs is 600001; it takes at most 600000'],
  [{ onConflict: { ms: 1 } }, "onConflict: unknown option 'ms'. The options are waitMs"],
  [{ sentAt: true }, 'sentAt is true; it takes false or { maxAgeMs }'],
  [{ sentAt: {} }, 'sentAt: maxAgeMs is null; it takes a whole number of 1 or more'],
  [{ sentAt: { maxAgeMs: 0 } }, 'sentAt: maxAgeMs is 0; it takes a whole number of 1 or more'],
  [
    { sentAt: { maxAgeMs: 1, maxSkewMs: -1 } },
    'sentAt: maxSkewMs is -1; it takes a whole number of 0 or more',
  ],
  [{ sentAt: { maxAgeMs: 1, required: 'yes' } }, "sentAt: required is 'yes'; it takes true or false"],
  [{ sentAt: { maxAgeMs: 1, header: 'a b' } }, "sentAt: header is 'a b'; it takes the name of a header"],
  [
    { sentAt: { maxAgeMs: 1, header: 'Idempotency-Key' } },
    "sentAt: header is 'idempotency-key'; it takes another header than that of the key",
  ],
  [
    { sentAt: { age: 1 } },
    "sentAt: unknown option 'age'. The options are header, maxAgeMs, maxSkewMs, required",
  ],
  [{ profile: 'paypal' }, "profile is 'paypal'; it takes one of 'ietf', 'stripe'"],
  [{ storedHeaders: 'x-a' }, "storedHeaders is 'x-a'; it takes a list of header names"],
  [{ storedHeaders: ['x a'] }, "storedHeaders is 'x a'; it takes the name of a header"],
  [
    { storedHeaders: ['x-a', 'Set-Cookie'] },
    "storedHeaders is 'set-cookie'; it takes only headers that may be replayed",
  ],
  [{ storedHeaders: ['date'] }, "storedHeaders is 'date'; it takes only headers that may be replayed"],
  [{ storedHeaders: ['trailer'] }, "storedHeaders is 'trailer'; it takes only headers that may be replayed"],
  [{ problemBaseUrl: '' }, "problemBaseUrl is ''; it takes an address without a fragment"],
  [
    { problemBaseUrl: 'https://a/#b' },
    "problemBaseUrl is 'https://a/#b'; it takes an address without a fragment",
  ],
  [{ problemBaseUrl: 1 }, 'problemBaseUrl is 1; it takes an address without a fragment'],
  [{ enforce: true }, "enforce is true; it takes one of 'off', 'warn', 'error'"],
  [{ strict: 'yes' }, "strict is 'yes'; it takes true or false"],
  [{ closeTimeoutMs: -1 }, 'closeTimeoutMs is -1; it takes a whole number of 0 or more'],
  [{ closeTimeoutMs: 2 ** 31 }, 'closeTimeoutMs is 2147483648; it takes at most 86400000'],
  [
    { wait: true },
    "unknown option 'wait'. The options are engine, scope, bindTo, header, keyScope, onConflict, sentAt, profile",
  ],
]

describe('the plugin refuses', () => {
  test.each(pluginMistakes)('%o', async (wrong, message) => {
    const app = open()
    const registered = register(app, { ...right, ...wrong })
    await expect(registered).rejects.toMatchObject({
      code: 'PAWL_INVALID_OPTION',
      message: expect.stringContaining(`register(fastifyPawl): ${message}`),
    })
  })

  test('to be registered twice on one instance', async () => {
    const app = open()
    await app.register(fastifyPawl, right)
    const again = register(app, right)
    await expect(again).rejects.toMatchObject({ code: 'PAWL_INVALID_OPTION' })
  })
})

const routeMistakes: Mistake[] = [
  [{ idempotency: 'yes' }, "the option is 'yes'; it takes true, false or an object"],
  [{ idempotency: null }, 'the option is null; it takes true, false or an object'],
  [{ idempotency: 1 }, 'the option is 1; it takes true, false or an object'],
  [{ idempotency: { required: 'no' } }, "required is 'no'; it takes true or false"],
  [{ idempotency: { keyScope: 'user' } }, "keyScope is 'user'; it takes one of 'account', 'route'"],
  [{ idempotency: { onConflict: 'wait' } }, "onConflict is 'wait'; it takes 'reject' or { waitMs }"],
  [
    { idempotency: { onConflict: { waitMs: -1 } } },
    'onConflict: waitMs is -1; it takes a whole number of 1 or',
  ],
  [
    { idempotency: { sentAt: { maxAgeMs: 1.5 } } },
    'sentAt: maxAgeMs is 1.5; it takes a whole number of 1 or',
  ],
  [{ idempotency: { fingerprint: 'body' } }, "fingerprint is 'body'; it takes a function"],
  [
    { idempotency: { scope: () => 'x' } },
    "unknown option 'scope'. The options are required, keyScope, onConflict, sentAt, fin",
  ],
  [{ idempotency: { exempt: '' } }, "exempt is ''; it takes the reason, as text"],
  [{ idempotency: { exempt: true } }, 'exempt is true; it takes the reason, as text'],
  [{ idempotency: { exempt: 'reads', required: true } }, 'required is true; it takes nothing besides exempt'],
]

describe('a route refuses', () => {
  test.each(routeMistakes)('%o', async (wrong, message) => {
    const app = open()
    await app.register(fastifyPawl, right)
    const declare = () => app.post('/rides/:id', wrong, async () => 'done')
    expect(declare).toThrow(
      expect.objectContaining({
        code: 'PAWL_INVALID_OPTION',
        message: expect.stringContaining(`idempotency of POST /rides/:id: ${message}`),
      }) as Error,
    )
  })
})

test('an option that is undefined counts as not given, and what Fastify adds is not a mistake', async () => {
  const app = open()
  const none = {
    header: undefined,
    keyScope: undefined,
    onConflict: undefined,
    sentAt: undefined,
    profile: undefined,
    storedHeaders: undefined,
    problemBaseUrl: undefined,
    enforce: undefined,
    strict: undefined,
    closeTimeoutMs: undefined,
  }
  await app.register(fastifyPawl, { ...right, ...none, prefix: '/v1', logLevel: 'info' } as never)
  const route = { required: undefined, keyScope: undefined, onConflict: undefined, sentAt: undefined }
  app.post('/rides', { idempotency: route as object }, async () => 'done')
  expect(app.idempotencyAudit()).toMatchObject([{ url: '/rides', key: 'required' }])
})
