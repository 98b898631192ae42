import { readFileSync } from 'node:fs'
import { InvalidInputError, type Outcome, PawlError, type StoredResponse } from '@pawl/core'
import Fastify from 'fastify'
import { expect, test } from 'vitest'
import { type Answer, answerTo, problemOf } from '../../packages/fastify-adapter/src/answer.js'
import { awaitOutcome } from '../../packages/fastify-adapter/src/await-outcome.js'
import { judgeSentAt } from '../../packages/fastify-adapter/src/judge-sent-at.js'
import type { PluginSettings } from '../../packages/fastify-adapter/src/plugin-settings.js'
import type { Problem } from '../../packages/fastify-adapter/src/problems.js'
import { type ProfileName, profiles } from '../../packages/fastify-adapter/src/profile.js'
import { readKey } from '../../packages/fastify-adapter/src/read-key.js'
import { sendAnswer } from '../../packages/fastify-adapter/src/send-answer.js'
import { unsuitableKey } from '../../packages/fastify-adapter/src/unsuitable-key.js'
import { StoredHeaders } from '../../packages/fastify-adapter/src/stored-headers.js'
import { DEFAULT_LEASE_MS } from '../../packages/core/src/limits.js'

/** The table under `## Answers` of docs/http.md, compared with what the adapter makes of each situation. */

interface Row {
  readonly situation: string
  readonly ietf: string
  readonly stripe: string
  readonly inAddition: string
}

const page = readFileSync(new URL('../../docs/http.md', import.meta.url), 'utf8')
const [, answers = ''] = /^## Answers$(.*?)^## /ms.exec(page) ?? []
const rows: Row[] = [...answers.matchAll(/^\| (.*) \|$/gm)].slice(2).map(([, line = '']) => {
  const [situation = '', ietf = '', stripe = '', inAddition = ''] = line.split('|').map((cell) => cell.trim())
  return { situation, ietf, stripe, inAddition }
})

const stored = (status: number): StoredResponse => ({ status, headers: {}, body: Buffer.from('"own"') })
const keyId = '0190f7a0-0000-7000-8000-000000000000'
const finished = (type: 'completed' | 'replayed'): Outcome => ({
  type,
  keyId,
  response: stored(201),
  expiresAt: new Date(),
})
const running: Outcome = { type: 'in_flight', retryAfterMs: 1_000, leaseLeftMs: 1_000, fencedOff: false }
const retryLater = (
  reason: 'asked_by_phase' | 'transient_error' | 'unknown_error',
  status?: number,
): Outcome => ({
  type: 'retry_later',
  keyId,
  reason,
  retryAfterMs: 1_000,
  recoveryPoint: 'started',
  error: null,
  response: status === undefined ? null : stored(status),
})

const problem = (of: Problem): Answer => ({ type: 'problem', problem: of })
const thrown = (error: unknown): Answer => problem(problemOf(error))

/** What a client gets that sent these keys. */
function keyed(...keys: string[]): Answer {
  const read = readKey(
    keys.flatMap((key) => ['idempotency-key', key]),
    'idempotency-key',
  )
  if (read.type === 'given') throw new Error('it is a key')
  return problem(read.type === 'absent' ? { code: 'idempotency_key_missing' } : read.problem)
}

/** What a client gets that sent this as the time of its first attempt. */
function timed(...moments: string[]): Answer {
  const settings = { header: 'sent-at', maxAgeMs: 1_000, maxSkewMs: 1_000, required: true }
  const refused = judgeSentAt(
    moments.flatMap((moment) => ['sent-at', moment]),
    settings,
    { hasKey: true, nowMs: Date.now() },
  )
  if (refused === null) throw new Error('it will do')
  return problem(refused)
}

/** What a duplicate gets that waits, while the first request runs and then does this. */
async function waited(waitMs: number, ...outcomes: Outcome[]): Promise<Answer> {
  const place = { turn: async () => ({ type: 'ask', found: null }) as const, leave: () => {} }
  const wait = { enter: () => place, waitMs, onceGone: () => () => {} }
  return answerTo(await awaitOutcome(async () => outcomes.shift() ?? running, wait))
}

/** Every situation of the table, with the answers that a client may get in it. */
const SITUATIONS: Readonly<Record<string, readonly Answer[]>> = {
  'first request': [answerTo(finished('completed'))],
  'retry, the first has finished': [answerTo(finished('replayed'))],
  'retry, the first is running': [answerTo(running)],
  '… where the route waits': [await waited(60_000, running, finished('replayed')), await waited(0)],
  'retry, the first died on its way': [answerTo(finished('completed'))],
  '… where the client [does not wait](#asynchronous-requests)': [
    answerTo({ type: 'enqueued', keyId, fresh: true, location: '/status/1', isPreferred: true }),
  ],
  'same key, other request': [
    answerTo({ type: 'mismatch', differs: 'request' }),
    answerTo({ type: 'mismatch', differs: 'pipeline' }),
  ],
  'a new key, and the scope has reached a limit': [
    answerTo({ type: 'limited', limit: 'new_keys', of: 'scope', max: 1, perMs: 1_000, retryAfterMs: 1_000 }),
  ],
  'retry, the key was deleted after its charge': [
    answerTo({ type: 'expired', keyId, settledAt: new Date(0) }),
  ],
  'no key, where one is required': [keyed()],
  'key empty, too long, not printable, sent twice': [
    keyed(''),
    keyed('k'.repeat(256)),
    keyed('\u0007'),
    keyed('k', 'k'),
  ],
  'the key is of a kind that the server refuses, such as a card number': [
    problem(unsuitableKey('idempotency-key', 'card_number')),
    thrown(new PawlError('PAWL_UNSUITABLE_KEY', 'The key looks like a card number.')),
  ],
  'the time of its first attempt is missing, unreadable, too old or in the future': [
    timed(),
    timed('yesterday'),
    timed('@1'),
    timed('@99999999999'),
  ],
  "the pipeline's input schema refuses the content": [
    thrown(new InvalidInputError('ride', [{ message: 'is missing', path: 'amount' }])),
  ],
  'the content is over the cap': [thrown(new PawlError('PAWL_TOO_LARGE', 'The input is too large.'))],
  'the operation itself answers 5xx, 408, 425 or 429': [500, 503, 408, 425, 429].map((status) =>
    answerTo(retryLater('asked_by_phase', status)),
  ),
  'a time-out, a broken connection, `retryLater`': [
    answerTo(retryLater('transient_error')),
    answerTo(retryLater('asked_by_phase')),
  ],
  'an unexpected exception': [answerTo(retryLater('unknown_error'))],
  'the database cannot answer, or the server is closing': [answerTo({ type: 'unavailable', error: null })],
  'it began under a version that is not here': [
    answerTo({ type: 'refused', pipeline: 'ride', version: 1, detail: 'not registered' }),
  ],
  'a person has to decide': [
    answerTo({ type: 'stuck', keyId, reason: 'too_old', recoveryPoint: 'started', lastError: null }),
  ],
  'the server is set up wrongly': [thrown(new PawlError('PAWL_INVALID_OPTION', 'A wrong option.'))],
}

test('the table has every situation, and no other', () => {
  expect(rows.map(({ situation }) => situation)).toEqual(Object.keys(SITUATIONS))
})

/** Sends an answer as the adapter does. */
async function sent(answer: Answer, profile: ProfileName) {
  const plugin = {
    header: 'idempotency-key',
    profile: profiles[profile],
    storedHeaders: new StoredHeaders('idempotency-key', []),
    problemBaseUrl: null,
  } as unknown as PluginSettings
  const context = {
    key: { key: 'k', generated: false },
    canAskAgain: true,
    dependsOnPrefer: false,
    changes: false,
  }
  const app = Fastify()
  app.post('/', (_, reply) => sendAnswer(reply, plugin, answer, context))
  const { statusCode, headers } = await app.inject({ method: 'POST', url: '/' })
  await app.close()
  return { statusCode, headers }
}

/** What a cell of the table calls this answer: its status, unless the operation itself chose that. */
const nameOf = (answer: Answer, status: number): string =>
  answer.type === 'response' ? 'response' : String(status)

const namedBy = (cell: string): string[] => cell.match(/\bresponse\b|\b\d{3}\b/g) ?? []

test.each(rows)('$situation', async ({ situation, inAddition, ...columns }) => {
  for (const profile of ['ietf', 'stripe'] as const) {
    const names = new Set<string>()
    for (const answer of SITUATIONS[situation] ?? []) {
      const { statusCode, headers } = await sent(answer, profile)
      names.add(nameOf(answer, statusCode))
      const what = `${profile} ${statusCode}`
      // The row about waiting names neither: it is one of the two rows above it.
      if (!situation.startsWith('… where the route waits')) {
        expect(headers['retry-after'] !== undefined, what).toBe(/(?<!no )`Retry-After`/.test(inAddition))
        expect(headers[profiles[profile].replayedHeader], what).toBe(
          inAddition.includes('-Replayed') ? 'true' : undefined,
        )
      }
      if (inAddition.includes('Idempotency-Expires')) expect(headers['idempotency-expires']).toBeDefined()
      if (inAddition.includes('not stored')) expect(headers['idempotency-expires']).toBeUndefined()
      expect(headers.location !== undefined, what).toBe(inAddition.includes('`Location`'))
    }
    expect([...names], profile).toEqual(namedBy(columns[profile]))
  }
})

const said = (of: string) => rows.find(({ situation }) => situation === of)?.inAddition.toLowerCase()

test('the headers of a replay, and the time that a dead holder keeps its key, are those of the code', () => {
  const { ietf, stripe } = profiles
  expect(said('retry, the first has finished')).toBe(
    `\`${ietf.replayedHeader}: true\` (or \`${stripe.replayedHeader}\`)`,
  )
  expect(said('retry, the first died on its way')).toBe(
    `409 until its lease has run out (${DEFAULT_LEASE_MS / 1_000} s)`,
  )
})
