import { type KeyPolicyOptions, respond, subscribe } from '@pawl/core'
import { expect, onTestFinished, test } from 'vitest'
import { KeyPolicy, readKeyPolicy } from '../../packages/core/src/request/key-policy.js'
import { createEngine, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

const CARD = '4111111111111111'
const any = pipeline<null>({ name: 'any', version: 1 }).finish(() => respond(200))

async function open(keyPolicy?: KeyPolicyOptions) {
  const database = await TestDatabase.create()
  const engine = createEngine({
    pool: database.pool(),
    schema: database.schema,
    pipelines: [any],
    ...(keyPolicy === undefined ? {} : { keyPolicy }),
  })
  onTestFinished(async () => {
    await engine.close()
    await database.drop()
  })
  const execute = (key: string) => engine.execute(any, { scope: 'ann', key, input: null })
  const enqueue = (key: string) => engine.enqueue(any, { scope: 'ann', key, input: null })
  return { execute, enqueue, rows: () => database.rows('SELECT key FROM pawl.idempotency_keys') }
}

/** What comes on `pawl:warning` from now on. */
function warnings(): string[] {
  const messages: string[] = []
  onTestFinished(subscribe('pawl:warning', ({ message }) => messages.push(message)))
  return messages
}

test('a card number is refused before anything is reserved, and the error does not contain it', async () => {
  const { execute, enqueue, rows } = await open()
  for (const ask of [execute, enqueue]) {
    const error = await ask(`charge ${CARD}`).then(
      () => null,
      (thrown: unknown) => thrown as Error,
    )
    expect(error).toMatchObject({ code: 'PAWL_UNSUITABLE_KEY' })
    expect(`${error?.message} ${error?.stack}`).not.toContain('4111')
  }
  expect(await rows()).toEqual([])
})

test('an application may take card numbers, and refuse the rest', async () => {
  const { execute } = await open({
    cardNumber: 'allow',
    email: 'refuse',
    phoneNumber: 'refuse',
    minLength: 10,
  })
  const refused = { code: 'PAWL_UNSUITABLE_KEY' }
  expect(await execute(CARD)).toMatchObject({ type: 'completed' })
  await expect(execute('ann@example.com')).rejects.toMatchObject(refused)
  await expect(execute('+49 30 12345678')).rejects.toMatchObject(refused)
  await expect(execute('k23456789')).rejects.toMatchObject(refused)
  expect(await execute('k234567890')).toMatchObject({ type: 'completed' })
})

test('an e-mail address and a phone number cause one warning each, without the key', async () => {
  const said = warnings()
  const { execute } = await open()
  for (const key of ['ann@example.com', 'bob@example.com', '+493012345678', '+493012345679', 'fine'])
    expect(await execute(key)).toMatchObject({ type: 'completed' })
  expect(said).toHaveLength(2)
  expect(said.join()).toMatch(/e-mail address.*phone number/)
  expect(said.join()).not.toMatch(/ann|bob|4930/)
})

test('where everything is allowed, nothing is said', () => {
  const said = warnings()
  const allow = { cardNumber: 'allow', email: 'allow', phoneNumber: 'allow' } as const
  const policy = new KeyPolicy(readKeyPolicy({ code: 'PAWL_INVALID_OPTION', where: 'test' }, allow))
  expect([CARD, 'ann@example.com', 'k'].map((key) => policy.judge(key))).toEqual([null, null, null])
  expect(said).toEqual([])
})
