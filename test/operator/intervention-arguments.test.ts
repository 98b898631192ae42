import { randomUUID } from 'node:crypto'
import { createOperator, type Operator } from '@pawl/core'
import { describe, expect, test } from 'vitest'
import { because } from './stuck-rides.js'

const pool = { connect: () => expect.fail('asked') } as never

describe('an operator refuses, before it asks the database anything', () => {
  const name = { scope: 's', key: 'k' }
  type Case = readonly [string, (op: Operator) => Promise<unknown>, string, string]
  const CASES: readonly Case[] = [
    ['an empty actor', (op) => op.revoke(name, { ...because, actor: ' ' }), 'PAWL_INVALID_OPTION', 'actor'],
    ['no reason', (op) => op.revoke(name, { actor: 'a' } as never), 'PAWL_INVALID_OPTION', 'reason'],
    [
      'a reason too long',
      (op) => op.revoke(name, { ...because, reason: 'x'.repeat(2_001) }),
      'PAWL_INVALID_OPTION',
      '2001 characters',
    ],
    [
      'a reason with NUL',
      (op) => op.revoke(name, { ...because, reason: 'a\0b' }),
      'PAWL_INVALID_OPTION',
      'NUL',
    ],
    ['no because', (op) => op.unstick(name, undefined as never), 'PAWL_INVALID_OPTION', 'an object'],
    [
      'an unknown member',
      (op) => op.unstick(name, { ...because, ticket: 1 } as never),
      'PAWL_INVALID_OPTION',
      `'ticket'`,
    ],
    [
      'something that is not an id',
      (op) => op.unstick({ keyId: 'k' }, because),
      'PAWL_INVALID_OPTION',
      `keyId is 'k'`,
    ],
    ['no id', (op) => op.show({ keyId: undefined } as never), 'PAWL_INVALID_OPTION', 'the id of a key'],
    [
      'an id together with a name',
      (op) => op.answer({ ...name, keyId: randomUUID() }, because, { status: 410 }),
      'PAWL_INVALID_OPTION',
      'either scope and key, or keyId',
    ],
    [
      'an id together with half a name',
      (op) => op.revoke({ scope: 's', keyId: randomUUID() }, because),
      'PAWL_INVALID_OPTION',
      'either scope and key, or keyId',
    ],
    ['half a name', (op) => op.revoke({ scope: 's' } as never, because), 'PAWL_INVALID_REQUEST', 'key'],
    ['an empty key', (op) => op.unstick({ ...name, key: '' }, because), 'PAWL_INVALID_REQUEST', 'key'],
    [
      'an unknown verdict',
      (op) => op.unstick(name, because, { type: 'perhaps' } as never),
      'PAWL_INVALID_OPTION',
      `'not_executed', 'executed'`,
    ],
    ['a verdict without type', (op) => op.unstick(name, because, {} as never), 'PAWL_INVALID_OPTION', 'type'],
    [
      'an executed call without a result',
      (op) => op.unstick(name, because, { type: 'executed' } as never),
      'PAWL_NOT_JSON',
      'result',
    ],
    [
      'a result with not_executed',
      (op) => op.unstick(name, because, { type: 'not_executed', result: 1 } as never),
      'PAWL_INVALID_OPTION',
      'result',
    ],
    [
      'a result too large',
      (op) => op.unstick(name, because, { type: 'executed', result: 'x'.repeat(2 ** 21) }),
      'PAWL_TOO_LARGE',
      '2097152',
    ],
    ...[500, 503, 408, 425, 429].map(
      (status) =>
        [
          `a response of ${status}`,
          (op: Operator) => op.answer(name, because, { status }),
          'PAWL_INVALID_RESPONSE',
          String(status),
        ] as const,
    ),
    ['a response of 199', (op) => op.answer(name, because, { status: 199 }), 'PAWL_INVALID_RESPONSE', '199'],
    [
      'a cookie',
      (op) => op.answer(name, because, { status: 200, headers: { 'Set-Cookie': 'a' } }),
      'PAWL_INVALID_RESPONSE',
      'set-cookie',
    ],
    [
      'a body that is not JSON',
      (op) => op.answer(name, because, { status: 200, body: new Date() as never }),
      'PAWL_NOT_JSON',
      'Date',
    ],
    [
      'a retention of 0',
      (op) => op.answer(name, because, { status: 200, retentionMs: 0 }),
      'PAWL_INVALID_OPTION',
      'retentionMs',
    ],
  ]
  test.each(CASES)('%s', async (_what, step, code, message) => {
    const nowhere = createOperator({ pool })
    await expect(step(nowhere)).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message) as string,
    })
  })

  test('wrong options of createOperator', () => {
    expect(() => createOperator({} as never)).toThrow(/pool is undefined; it takes a pg.Pool/)
    expect(() => createOperator({ pool, schema: 'Pawl' })).toThrow(/schema/)
    expect(() => createOperator({ pool, scheme: 'x' } as never)).toThrow(/unknown option 'scheme'/)
  })
})
