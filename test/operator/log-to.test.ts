import { channel } from 'node:diagnostics_channel'
import { randomUUID } from 'node:crypto'
import { logTo, pawlChannels, type PawlChannel } from '@pawl/core'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { createEngine, createRideTables, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

type Level = 'info' | 'warn' | 'error'

/** Keeps lines as pino would write them: it calls its methods on itself. */
class Lines {
  readonly lines: { readonly level: Level; readonly text: string; readonly fields: object }[] = []
  info(fields: object, text: string): void {
    this.lines.push({ level: 'info', text, fields })
  }
  warn(fields: object, text: string): void {
    this.lines.push({ level: 'warn', text, fields })
  }
  error(fields: object, text: string): void {
    this.lines.push({ level: 'error', text, fields })
  }
}

const SECRET = 'sk_live_4eC39HqLyjWDarjtT1zdp7dc'
const failure = Object.assign(new Error(`refused: ${SECRET} of anna`), { detail: 'Key (card)=(4242)' })

/** Of each channel, a message and the level that it is logged at; null where it reports what went as it should. */
const MESSAGES: Readonly<Record<PawlChannel, readonly [object, Level | null]>> = {
  'pawl:reserved': [{}, null],
  'pawl:enqueued': [{}, null],
  'pawl:replayed': [{ from: 'primary' }, null],
  'pawl:in_flight': [{}, null],
  'pawl:mismatch': [{ differs: 'request' }, null],
  'pawl:expired': [{}, null],
  'pawl:limited': [{}, null],
  'pawl:taken_over': [{}, null],
  'pawl:phase_started': [{}, null],
  'pawl:phase_committed': [{}, null],
  'pawl:phase_retried': [{ error: failure }, null],
  'pawl:phase_failed': [{ error: failure, reason: 'phase_threw' }, 'warn'],
  'pawl:retried_for_long': [{ error: failure, sinceMs: 1 }, 'warn'],
  'pawl:outcome_unknown': [{ error: failure }, 'warn'],
  'pawl:commit_settled': [{ committed: true }, 'warn'],
  'pawl:fenced_off': [{}, 'warn'],
  'pawl:finished': [{ status: 201 }, null],
  'pawl:stuck': [{ reason: 'too_old', lastError: null }, 'error'],
  'pawl:refused': [{ detail: 'version 3' }, 'warn'],
  'pawl:unavailable': [{ error: failure }, null],
  'pawl:breaker': [{ state: 'opened', failures: 5, refused: 0, openMs: 0, error: failure }, 'error'],
  'pawl:round': [{ service: 'completer', counts: { found: 1 } }, 'info'],
  'pawl:round_failed': [{ service: 'reaper', error: failure, failures: 2 }, 'error'],
  'pawl:job_failed': [{ jobId: 'j', error: failure }, 'warn'],
  'pawl:job_dead': [{ jobId: 'j', lastError: 'gone' }, 'error'],
  'pawl:reap_held': [{ keyIds: ['k'], constraint: 'c' }, 'warn'],
  'pawl:warning': [{ message: 'look', error: failure }, 'warn'],
}

let log: Lines

beforeEach(() => {
  log = new Lines()
})

function listening(...options: Parameters<typeof logTo> extends [unknown, ...infer Rest] ? Rest : never) {
  const stop = logTo(log, ...options)
  onTestFinished(stop)
  return stop
}

test.each(pawlChannels)('%s is logged as whoever has to act on it needs it', (name) => {
  listening()
  const [message, level] = MESSAGES[name]
  channel(name).publish(message)
  expect(log.lines.map((line) => line.level)).toEqual(level === null ? [] : [level])
  expect(log.lines[0]?.text ?? 'a line').toMatch(/\w/)
})

test('errors are copied: without secrets, and without what libraries attach to them', () => {
  listening({ redact: (text) => text.replaceAll('anna', '‹somebody›') })
  for (const name of pawlChannels) channel(name).publish(MESSAGES[name][0])
  const errors = log.lines.flatMap(({ fields }) => ('err' in fields ? [fields.err as Error] : []))
  expect(errors).toHaveLength(7)
  for (const error of errors) {
    expect(error).toBeInstanceOf(Error)
    expect(error.message).toMatch(/^refused: .*‹somebody›$/)
    expect(`${error.stack} ${JSON.stringify(error)}`).not.toMatch(/sk_live|anna|4242/)
  }
  for (const { fields } of log.lines) expect(fields).not.toHaveProperty('error')
})

test('a round that did nothing, a database that is looked for and a phase that asks are no trouble', () => {
  listening()
  channel('pawl:round').publish({ service: 'reaper', counts: { deleted: 0 } })
  channel('pawl:breaker').publish({ state: 'half_open', error: failure })
  expect(log.lines).toEqual([])
  channel('pawl:breaker').publish({ state: 'closed', refused: 7, error: null })
  channel('pawl:phase_failed').publish({ error: null, reason: 'asked_by_phase' })
  channel('pawl:warning').publish({ message: 'look', error: null })
  expect(log.lines).toEqual([
    { level: 'info', text: 'the database is back', fields: { refused: 7 } },
    { level: 'info', text: 'a phase asked for another attempt', fields: { reason: 'asked_by_phase' } },
    { level: 'warn', text: 'look', fields: {} },
  ])
})

test('what is stopped writes nothing more', () => {
  const stop = listening()
  stop()
  stop()
  for (const name of pawlChannels) channel(name).publish(MESSAGES[name][0])
  expect(log.lines).toEqual([])
})

test('what is no logger, and what is no option, is refused', () => {
  expect(() => logTo({} as never)).toThrow('logTo: info is undefined; it takes a function.')
  expect(() => logTo(null as never)).toThrow('logTo: info is undefined')
  expect(() => logTo(log, { level: 'info' } as never)).toThrow("unknown option 'level'")
  expect(() => logTo(log, { redact: 'all' } as never)).toThrow("redact is 'all'; it takes a function")
})

describe('of a real run', () => {
  test('a request that fails and is stuck has its lines, and neither key nor scope is in them', async () => {
    const database = await TestDatabase.create()
    await createRideTables(database)
    const fails = pipeline<null>({ name: 'fails', version: 1 })
      .foreign('charged', { guarantee: 'at_most_once', call: () => Promise.reject(failure) })
      .finish(() => ({}) as never)
    const engine = createEngine({
      pool: database.pool(),
      pipelines: [fails],
      schema: database.schema,
    })
    listening()
    const [scope, key] = [randomUUID(), randomUUID()]
    const outcome = await engine.execute(fails, { scope, key, input: null })
    expect(outcome.type).toBe('stuck')
    expect(log.lines).toMatchObject([
      { level: 'warn', fields: { phase: 'charged', reason: 'unknown_error' } },
      { level: 'error', fields: { pipeline: 'fails', reason: 'unknown_outcome', recoveryPoint: 'started' } },
    ])
    expect(JSON.stringify(log.lines)).not.toMatch(new RegExp(`${scope}|${key}|sk_live`))
    await engine.close()
    await database.drop()
  })
})
