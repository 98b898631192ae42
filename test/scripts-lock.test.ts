import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'

const HOLDER = fileURLToPath(new URL('./fixtures/lock-holder.mjs', import.meta.url))

let folder: string
let holders: ChildProcess[]

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'pawl-lock-'))
  holders = []
})

afterEach(async () => {
  for (const holder of holders) holder.kill('SIGKILL')
  await rm(folder, { recursive: true, force: true })
})

function startHolder(): ChildProcess {
  const holder = fork(HOLDER, [folder], { execArgv: [], stdio: ['ignore', 'pipe', 'inherit', 'ipc'] })
  holders.push(holder)
  return holder
}

test('a second run waits, says so, and continues when the first is done', async () => {
  const first = startHolder()
  await once(first, 'message')

  const second = startHolder()
  const [line] = (await once(second.stdout!, 'data')) as [Buffer]
  expect(line.toString()).toContain(`Waiting for another run in this checkout (process ${first.pid})`)

  const entered = once(second, 'message')
  first.send('let go')
  await entered
  expect(await readFile(join(folder, 'events'), 'utf8')).toBe('in\nout\nin\n')
})

test('a lock whose owner was killed is taken over by one run at a time', async () => {
  const first = startHolder()
  await once(first, 'message')
  first.kill('SIGKILL')
  await once(first, 'exit')

  await rm(join(folder, 'events'))

  const others = [startHolder(), startHolder(), startHolder(), startHolder()]
  for (const holder of others) holder.once('message', () => holder.send('let go'))
  await Promise.all(others.map((holder) => once(holder, 'exit')))
  expect(await readFile(join(folder, 'events'), 'utf8')).toBe('in\nout\n'.repeat(others.length))
})
