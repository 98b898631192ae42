import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Finding, type KitError } from '@pawl/crash-kit'
import { CamelCasePlugin } from 'kysely'
import pg from 'pg'
import { describe, expect, inject, onTestFailed, onTestFinished, test, vi } from 'vitest'
import { Trial } from '../../packages/crash-kit/src/actors/trial.js'
import { Explorer } from '../../packages/crash-kit/src/explore/explorer.js'
import { crash } from '../../packages/crash-kit/src/faults/crash.js'
import { Coverage } from '../../packages/crash-kit/src/finding/coverage.js'
import { checkChild } from '../../packages/crash-kit/src/explore/check-child.js'
import { childContext } from '../../packages/crash-kit/src/process/child-context.js'
import { childStart } from '../../packages/crash-kit/src/process/child-start.js'
import { Children } from '../../packages/crash-kit/src/process/children.js'
import { ProcessAttempt } from '../../packages/crash-kit/src/case/process-attempt.js'
import { oddRide } from './fixtures/odd-rides.mjs'
import { oddChild, openKit, RIDE_CHILD, type OpenedKit } from './open-kit.js'

const ride = await openKit()

const dataUrl = (code: string): string => `data:text/javascript,${encodeURIComponent(code)}`

const checked = ({ environment, discovery, childrenOf }: OpenedKit, module: URL | string): Promise<void> =>
  checkChild(environment, childrenOf(module), discovery)

/** Expects a `KitError` about a child, whose message has all of these parts. */
async function expectRefusal(refused: Promise<unknown>, ...parts: string[]): Promise<void> {
  const error = (await refused.then(
    () => null,
    (reason: unknown) => reason,
  )) as KitError | null
  expect(error).toMatchObject({ name: 'KitError', code: 'PAWL_KIT_CHILD' })
  for (const part of parts) expect(error?.message).toContain(part)
}

describe('the error for a module that a child cannot run names it, with what is wrong and what to do', () => {
  test('it does not exist', async () => {
    const module = new URL('./fixtures/nowhere.mjs', import.meta.url)
    const path = fileURLToPath(module)
    await expectRefusal(
      checked(ride, module),
      `A child process cannot run ${module.href}: it ended with code 1 before it could begin.`,
      'It printed:',
      `Cannot find module '${path}'`,
      `To see it alone: node ${path}`,
    )
  })

  test.each([
    [
      'it is not JavaScript',
      'export default {',
      ['before it could begin', 'SyntaxError: Unexpected end of input'],
    ],
    ['it throws', `throw new Error('no settings')`, ['before it could begin', 'Error: no settings']],
    ['it has no default export', 'export const ride = 1', ['has to be a pipeline', 'but there is none']],
    ['its default export is something else', 'export default 3', ['has to be a pipeline', 'but it is none']],
    [
      'its function returns nothing',
      'export default () => {}',
      ['has to be a pipeline', 'but it returns none'],
    ],
  ])('%s', async (_what, code, parts) => {
    await expectRefusal(checked(ride, dataUrl(code)), ...parts)
  })

  test('Node does not know what kind of file it is', async () => {
    const module = new URL('./ride-kit.ts', import.meta.url)
    await expectRefusal(
      checked(ride, module),
      'ERR_UNKNOWN_FILE_EXTENSION',
      `pass child.execArgv to crashKit, such as ['--import', 'tsx']`,
    )
  })

  test('its pipeline is a different one', async () => {
    await expectRefusal(
      checked(ride, oddChild('otherVersion')),
      `its pipeline is 'create-ride', version 2, `,
      `crashKit's is 'create-ride', version 1, `,
    )
  })

  test('its pipeline takes another path', async () => {
    await expectRefusal(
      checked(ride, oddChild('detour')),
      'step 4 is ride_created/begin#1:after there, and ride_created/query#1:before here',
    )
  })

  test('it does not end', async () => {
    const { environment, discovery, childrenOf } = ride
    const children = childrenOf(dataUrl(`console.error('thinking'); await new Promise(() => {})`), 2_000)
    await expectRefusal(
      checkChild(environment, children, discovery),
      'it did not end within 2000 ms, and was killed.',
    )
  })
})

test('a process gets the Node options that it was given', async () => {
  const { environment, discovery } = ride
  const module = dataUrl('throw new Error(`the loader says ${globalThis.said}`)')
  const children = new Children(
    { module, execArgv: ['--import', dataUrl(`globalThis.said = 'hello'`)] },
    null,
  )
  await expectRefusal(
    checkChild(environment, children, discovery),
    'the loader says hello',
    'node --import data:',
  )
})

test('a process that ends by itself in the middle of a request is a finding', async () => {
  const ended = checked(ride, oddChild('exits'))
  await expect(ended).rejects.toThrow('The process of client ended with code 3, which was not planned.')
  await expect(ended).rejects.toThrow('cannot go on like this')
  await expect(ended).rejects.toThrow(`await kit.replay('process: no faults')`)
})

test('an outcome arrives even if its error cannot be sent', async () => {
  await expectRefusal(
    checked(ride, oddChild('failing')),
    'without any fault, its request got retry_later (the card was declined).',
  )
})

test('a foreign request that a process sends inside a transaction is a finding', async () => {
  const failure = (await checked(ride, oddChild('inTransaction')).catch((error: unknown) => error)) as Finding
  expect(failure).toBeInstanceOf(Finding)
  expect(failure.violations).toContainEqual({
    rule: 'lint',
    title: 'no foreign request is made inside a transaction',
    detail: expect.stringContaining(`client sent POST /rides in 'charge_created' while`) as string,
    tick: expect.any(Number) as number,
  })
})

const hook: (client: pg.ClientBase) => unknown = (client) => client.query(`SET rides.hooked = 'yes'`)

describe('the module of a process has to export what cannot be sent to it', () => {
  test('options of the pool', async () => {
    const pool = new pg.Pool({ connectionString: inject('databaseUrl'), onConnect: hook })
    const kit = await openKit((provider) => oddRide('hooked', provider), { pool })
    await expectRefusal(
      checked(kit, RIDE_CHILD),
      'pool.onConnect cannot be sent to another process',
      'export const pool = { onConnect }',
    )
    await expect(checked(kit, oddChild('hooked'))).resolves.toBeUndefined()
  })

  test('options of the engine', async () => {
    const engine = { plugins: [new CamelCasePlugin()] }
    const kit = await openKit((provider) => oddRide('camel', provider), { engine })
    await expectRefusal(
      checked(kit, RIDE_CHILD),
      'engine.plugins cannot be sent to another process',
      'export const engine = { plugins }',
    )
    await expect(checked(kit, oddChild('camel'))).resolves.toBeUndefined()
  })

  test('except for the input, which has to be plain data', async () => {
    const { environment, discovery, childrenOf } = ride
    const request = { scope: 'rider-1', input: { amount: () => 1_200 } }
    await expectRefusal(
      checkChild({ ...environment, request }, childrenOf(RIDE_CHILD), discovery),
      'request.input cannot be sent to another process',
    )
  })
})

test('a process gets the options that can be sent, and a password that a function returns', async () => {
  const { host, port, user, database, password } = new pg.Client({
    connectionString: inject('databaseUrl'),
  })
  // Idle connections of the kit stay open, and are not taken for those of the process.
  const where = { host, port, idleTimeoutMillis: 0 }
  const pool = new pg.Pool({ ...where, user, database, password: () => password ?? '' })
  const { environment, discovery, childrenOf } = await openKit(undefined, {
    pool,
    engine: { namespace: 'rides' },
  })
  const children = childrenOf(RIDE_CHILD)
  const explorer = new Explorer(environment, discovery, [], new Coverage(), children)
  // Under another namespace, it would charge a second time.
  const planned = explorer.named([{ attempt: 0, fault: 'crash', at: 'charge_created/call#1:after' }])
  expect((await explorer.run(planned)).fired).toEqual([true])
})

test('nothing runs in a process after the position at which it dies: no catch, no finally, no exit handler', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'pawl-witness-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const file = join(folder, 'witness')
  const request = { scope: 'rider-1', input: { amount: 1_200, file } }
  const { environment, discovery, childrenOf } = await openKit((provider) => oddRide('witnessed', provider), {
    request,
  })
  const children = childrenOf(oddChild('witnessed'))
  const explorer = new Explorer(environment, discovery, [], new Coverage(), children)
  const written = async () => {
    const lines = (await readFile(file, 'utf8')).trimEnd().split('\n')
    await rm(file)
    return lines.filter((line) => !line.startsWith(`${process.pid} `)).map((line) => line.split(' ')[1])
  }
  await rm(file)

  await explorer.run(explorer.named([]))
  expect(await written()).toEqual(['begun', 'inserted', 'finally', 'exit'])
  await explorer.run(explorer.named([{ attempt: 0, fault: 'crash', at: 'ride_created/query#1:after' }]))
  expect(await written()).toEqual(['begun'])
})

test('a process reports what it does, and goes on when the parent has handled that', async () => {
  const { environment, provider, childrenOf } = await openKit()
  const children = childrenOf(RIDE_CHILD)
  const trial = await Trial.open(environment)
  const said: string[] = []
  await children.run(await childStart(trial, 'client', children, null), async (message) => {
    if (message.type === 'enter')
      said.push(`enter ${message.id}: ${message.window.phase} ${message.window.kind}`)
    if (message.type === 'leave') said.push(`leave ${message.id}`)
    if (message.type !== 'enter' || message.window.kind !== 'call') return
    // A request that was sent too early would have arrived by now.
    for (let round = 0; round < 20; round++) await provider.find('nothing')
    expect(provider.requests.filter(({ method }) => method === 'POST')).toEqual([])
  })
  expect(said).toEqual([
    'enter 1: ride_created transaction',
    'leave 1',
    'enter 2: charge_created call',
    'leave 2',
    'enter 3: charge_created transaction',
    'leave 3',
    'enter 4: finished transaction',
    'leave 4',
  ])
})

test('a dead process has no connections on the server, and no request is attributed to it', async () => {
  const { environment, provider, childrenOf } = await openKit()
  const trial = await Trial.open(environment)
  const pending = { fault: crash, at: 'ride_created/query#1:after', struck: false, fired: false }
  const children = childrenOf(RIDE_CHILD)
  const started = vi.spyOn(children, 'run')
  // Stands for a statement of it that the server still runs.
  const straggler = new pg.Client(environment.database.poolConfig('client'))
  await straggler.connect()
  const attempted = new ProcessAttempt(trial, children, 'client', [pending], false).run()
  await vi.waitUntil(() => started.mock.results.length > 0)
  await started.mock.results[0]?.value
  expect(await environment.database.backends('client')).toHaveLength(1)
  expect(pending.fired).toBe(false)
  await straggler.end()
  await attempted
  expect(await environment.database.backends('client')).toEqual([])
  await provider.send({ amount: 7 })
  expect(environment.provider?.history()).toEqual([
    expect.objectContaining({ actor: null, phase: null, inTransaction: false }),
  ])
  expect(pending).toMatchObject({ struck: true, fired: true })
})

describe('no child outlives', () => {
  const idle = dataUrl(`console.log(process.pid); setInterval(() => {}, 60_000); await new Promise(() => {})`)
  const busy = dataUrl(`console.log(process.pid); for (;;);`)

  test('the kit', async () => {
    const children = ride.childrenOf(idle)
    const ended = children.run({ module: idle } as never, async () => {})
    ended.catch(() => {})
    await children.close()
    await expectRefusal(ended, 'The kit was closed while a child process ran.')
  })

  test.each([
    ['a process that exits', busy, 'exit'],
    ['a process that is killed', idle, 'SIGKILL'],
  ] as const)('%s', async (_whom, module, how) => {
    const keeper = fork(fileURLToPath(new URL('./fixtures/child-keeper.mjs', import.meta.url)), [module], {
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    })
    if (keeper.stdout === null) throw new TypeError('it has no standard output')
    const [pid] = (await once(keeper.stdout, 'data')) as [Buffer]
    onTestFailed(() => void process.kill(Number(pid), 'SIGKILL'))
    // The child has it open as well.
    const bothEnded = once(keeper.stdout, 'close')
    if (how === 'exit') keeper.send('exit')
    else keeper.kill(how)
    await bothEnded
  })
})

test('without a provider, asking for it throws an error that says so', () => {
  const context = childContext(null)
  expect(() => context.provider).toThrow('There is no provider: crashKit was given no provider.')
  expect(() => context.providerUrl).toThrow('There is no providerUrl: crashKit was given no provider.')
})

test('with a provider, a client of the process finds what it has sent', async () => {
  const { provider, providerUrl } = childContext(ride.provider.url)
  const { id } = await provider.send({ amount: 7 }, { idempotencyKey: 'one' })
  expect(await provider.find('one')).toEqual(expect.objectContaining({ id }))
  expect([provider.url, providerUrl]).toEqual([ride.provider.url, ride.provider.url])
  expect(ride.provider.ledger).toContainEqual(expect.objectContaining({ id }))
})
