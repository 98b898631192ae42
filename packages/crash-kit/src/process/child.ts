/**
 * The main of a child process: sends one request, on connections of its own, and dies by SIGKILL at the position it was
 * given.
 */
import { writeSync } from 'node:fs'
import type { Outcome } from '@pawl/core'
import { createProbedEngine, type Position, readDefinition } from '@pawl/core/internal'
import pg from 'pg'
import { rehearse } from '../cast/rehearse.js'
import { positionNamer } from '../finding/position-namer.js'
import { KitError } from '../kit-error.js'
import { loadModule, type LoadedModule } from './child-module.js'
import { type ChildStart, LAST_WORDS_FD, type ToChild } from './messages.js'
import { ParentLine } from './parent-line.js'

if (process.send === undefined) {
  throw new KitError(
    'PAWL_KIT_CHILD',
    'This is the main of the processes that the crash kit starts. Do not import it.',
  )
}

const parent = new ParentLine()

// Whoever started it is gone, and nobody else will end it.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
process.on('message', (message: ToChild) => {
  switch (message.type) {
    case 'start':
      void start(message.start)
      return
    case 'go':
      parent.heard(message.id)
  }
})

async function start(wanted: ChildStart): Promise<void> {
  try {
    await run(wanted, await loadModule(wanted))
  } catch (error) {
    // What is not the kit's own to explain is printed by Node, and ends the process.
    if (!(error instanceof KitError)) throw error
    await parent.ask({ type: 'failed', why: error.message })
  }
  // Whatever the module keeps open is nobody's to wait for.
  process.exit()
}

async function run({ schema, request, dieAt }: ChildStart, module: LoadedModule): Promise<void> {
  const pool = new pg.Pool(module.pool)
  pool.on('error', () => {})
  // Lints are for the parent's own runs, which come before any child's.
  const pipeline = rehearse(module.pipeline, { enter, notAwaited: () => {}, settings: {}, lock: null })
  const nameOf = positionNamer()
  // Said without waiting for the parent: until it dies, the engine runs as one that nobody watches.
  const probe = (passed: Position): void => {
    const position = nameOf(passed)
    if (position.text === dieAt) die(position.text)
    parent.say({ type: 'at', position })
  }
  const strict = module.engine.strict ?? true
  const engine = createProbedEngine<never>(
    { ...module.engine, pool, pipelines: [pipeline], schema, strict },
    probe,
    { prepareAfterUses: 1 },
  )
  const { name, version, hash } = readDefinition(pipeline)
  await parent.ask({ type: 'ready', definition: { name, version, hash } })
  const outcome = await engine.execute(pipeline, { ...request, input: request.input as never })
  await parent.ask({ type: 'told', outcome: sendable(outcome) })
  await engine.close()
  // A client that somebody never gave back would be waited for.
  if (pool.totalCount === pool.idleCount) await pool.end()
}

let windows = 0

/**
 * User code waits until the parent knows that it begins: what it sends would otherwise come to a provider that cannot tell
 * whose it is. No statement is under way there, and none waits to be sent.
 */
async function enter(window: Parameters<Parameters<typeof rehearse>[1]['enter']>[0]): Promise<() => void> {
  const id = ++windows
  await parent.ask({ type: 'enter', id, window })
  return () => void parent.say({ type: 'leave', id })
}

/** Right here: nothing after it runs, no catch, no finally, no handler of the process's end. */
function die(position: string): never {
  writeSync(LAST_WORDS_FD, position)
  process.kill(process.pid, 'SIGKILL')
  // Where the signal takes a moment to arrive, nothing runs meanwhile.
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
}

/** An error may hold what cannot be sent, such as a socket. */
function sendable(outcome: Outcome): Outcome {
  return 'error' in outcome && outcome.error != null
    ? { ...outcome, error: plainError(outcome.error) }
    : outcome
}

function plainError(error: unknown): Error {
  return error instanceof Error
    ? Object.assign(new Error(error.message), { stack: error.stack })
    : new Error(String(error))
}
