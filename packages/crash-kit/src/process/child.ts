/**
 * The main module of a child process: sends one request, on connections of its own, and dies by SIGKILL at the position that it was
 * given.
 */
import { writeSync } from 'node:fs'
import type { Outcome } from '@pawl/core'
import { createProbedEngine, learnCache, type Position, readDefinition } from '@pawl/core/internal'
import pg from 'pg'
import { instrumentPipeline } from '../actors/instrument-pipeline.js'
import { positionNamer } from '../plan/named-position.js'
import { KitError } from '../kit-error.js'
import { loadModule, type LoadedModule } from './child-module.js'
import { type ChildStart, CRASH_POSITION_FD, type ToChild } from './messages.js'
import { ParentChannel } from './parent-channel.js'

if (process.send === undefined) {
  throw new KitError(
    'PAWL_KIT_CHILD',
    'This is the main module of the processes that the crash kit starts. Do not import it.',
  )
}

const parent = new ParentChannel()

// The process that started it is gone, and nobody else will end this one.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
process.on('message', (message: ToChild) => {
  switch (message.type) {
    case 'start':
      void start(message.start)
      return
    case 'go':
      parent.acknowledged(message.id)
  }
})

async function start(wanted: ChildStart): Promise<void> {
  try {
    await run(wanted, await loadModule(wanted))
  } catch (error) {
    // Node prints an error that the kit does not explain, and ends the process.
    if (!(error instanceof KitError)) throw error
    await parent.sendAndWait({ type: 'failed', why: error.message })
  }
  // Nobody has to wait for what the module keeps open.
  process.exit()
}

async function run({ schema, request, dieAt }: ChildStart, module: LoadedModule): Promise<void> {
  const pool = new pg.Pool(module.pool)
  pool.on('error', () => {})
  // The parent looks for lints in its own runs, which come before any child's.
  const pipeline = instrumentPipeline(module.pipeline, {
    enter,
    notAwaited: () => {},
    settings: {},
    lock: null,
  })
  const nameOf = positionNamer()
  // Does not wait for the parent, so that until it dies, the engine runs like one that is not observed.
  const probe = (passed: Position): void => {
    const position = nameOf(passed)
    if (position.text === dieAt) die(position.text)
    parent.send({ type: 'at', position })
  }
  const strict = module.engine.strict ?? true
  const engine = createProbedEngine<never>(
    { ...module.engine, pool, pipelines: [pipeline], schema, strict },
    probe,
    { prepareAfterUses: 1 },
  )
  const { name, version, hash } = readDefinition(pipeline)
  await parent.sendAndWait({ type: 'ready', definition: { name, version, hash } })
  if (module.engine.cache !== undefined) await learnCache(engine)
  const outcome = await engine.execute(pipeline, { ...request, input: request.input as never })
  await parent.sendAndWait({ type: 'outcome', outcome: sendableOutcome(outcome) })
  await engine.close()
  // Ending would wait for a client that was never given back.
  if (pool.totalCount === pool.idleCount) await pool.end()
}

let windows = 0

/**
 * User code waits until the parent knows that it begins. Otherwise the provider could not know which phase sent a request. At this
 * point no statement is under way, and none waits to be sent.
 */
async function enter(
  window: Parameters<Parameters<typeof instrumentPipeline>[1]['enter']>[0],
): Promise<() => void> {
  const id = ++windows
  await parent.sendAndWait({ type: 'enter', id, window })
  return () => void parent.send({ type: 'leave', id })
}

/** Dies right here. Nothing runs afterwards: no catch, no finally, no exit handler. */
function die(position: string): never {
  writeSync(CRASH_POSITION_FD, position)
  process.kill(process.pid, 'SIGKILL')
  // Nothing runs until the signal arrives, which may take a moment.
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
}

/** An error may contain what cannot be sent, such as a socket. */
function sendableOutcome(outcome: Outcome): Outcome {
  return 'error' in outcome && outcome.error != null
    ? { ...outcome, error: plainError(outcome.error) }
    : outcome
}

function plainError(error: unknown): Error {
  return error instanceof Error
    ? Object.assign(new Error(error.message), { stack: error.stack })
    : new Error(String(error))
}
