import type { PoolClient, QueryResult } from 'pg'
import { expect, test } from 'vitest'
import { type Outgoing, outgoingQuery } from '../../packages/core/src/driver/outgoing.js'
import type { OnAnswered } from '../../packages/core/src/driver/pg-protocol.js'
import { type Sender, SendQueue } from '../../packages/core/src/driver/send-queue.js'
import { STATEMENTS_PER_DEADLINE } from '../../packages/core/src/limits.js'

const ok = (command: string): QueryResult => ({ command }) as QueryResult
const query = (text: string): Outgoing => outgoingQuery(text, [], false, null)
const joinable = (text: string): Outgoing => ({ ...query(text), joinable: true })
const closed = new Error('closed')

/** A queue to a server whose answers come from the test. */
function open(deadlineMs = 60_000) {
  const sent: { readonly text: string; readonly answer: OnAnswered }[] = []
  const silences: number[] = []
  const client = {} as PoolClient
  const queue = new SendQueue(
    client,
    {
      sendTogether: (_, statements, answer) => {
        sent.push({ text: statements.map(({ text }) => text).join('; '), answer })
      },
      sendAlone: (_, { text }, answer) => {
        if (text === 'unsendable') throw new Error('not today')
        sent.push({ text, answer })
      },
    },
    'place',
    null,
    (afterMs) => {
      silences.push(afterMs)
      queue.close(closed)
    },
  )
  const sender = (more: Partial<Sender> = {}): Sender => ({
    deadlineMs,
    isCommitting: false,
    refusal: () => null,
    sending: () => {},
    answered: (error) => error,
    ...more,
  })
  const answer = (at: number, error: unknown = null) =>
    sent[at]?.answer(error, error === null ? [ok(sent[at].text)] : [])
  return { queue, sender, answer, sent, silences, texts: () => sent.map(({ text }) => text) }
}

const ofFramework = (text: string) => ({ ...joinable(text), step: 'insert_staged_job' })

test('a message is sent when the one before it has been answered, in the order in which they were handed over', async () => {
  const { queue, sender, answer, texts } = open()
  const all = Promise.all(['one', 'two', 'three'].map((text) => queue.send(sender(), [query(text)])))
  expect(texts()).toEqual(['one'])
  answer(0)
  expect(texts()).toEqual(['one', 'two'])
  answer(1)
  answer(2)
  expect(await all).toEqual([[ok('one')], [ok('two')], [ok('three')]])
  expect(queue.isIdle).toBe(true)
})

test('a dropped message is never sent, and the messages of others still are', async () => {
  const { queue, sender, answer, texts } = open()
  const [ours, theirs] = [sender(), sender()]
  const first = queue.send(ours, [query('under way')])
  const dropped = queue.send(ours, [query('dropped')])
  const other = queue.send(theirs, [query('of another')])
  queue.drop(ours, closed)
  await expect(dropped).rejects.toBe(closed)
  answer(0)
  answer(1)
  await Promise.all([first, other])
  expect(texts()).toEqual(['under way', 'of another'])
})

test('whether a message may be sent is decided when its turn has come', async () => {
  const { queue, sender, answer, texts } = open()
  let ended: Error | null = null
  const first = queue.send(sender(), [query('ends it')])
  const refused = queue.send(sender({ refusal: () => ended }), [query('comes too late')])
  const next = queue.send(sender(), [query('next')])
  ended = closed
  answer(0)
  await expect(refused).rejects.toBe(closed)
  answer(1)
  await Promise.all([first, next])
  expect(texts()).toEqual(['ends it', 'next'])
})

test('a client that throws instead of answering fails that statement, and the next one is sent', async () => {
  const { queue, sender, answer, texts } = open()
  const heard: unknown[] = []
  const failing = sender({ answered: (error) => (heard.push(error), error) })
  const failed = queue.send(failing, [query('unsendable')])
  const next = queue.send(sender(), [query('next')])
  await expect(failed).rejects.toThrow('not today')
  expect(heard).toHaveLength(1)
  answer(0)
  await next
  expect(texts()).toEqual(['next'])
})

test('a second answer to a message, which a tracer can cause, is not taken for the answer to the next one', async () => {
  const { queue, sender, answer, texts } = open()
  const all = queue.send(sender(), [query('one'), query('two')])
  answer(0)
  answer(0)
  answer(0, new Error('again'))
  expect(texts()).toEqual(['one', 'two'])
  expect(queue.isIdle).toBe(false)
  answer(1)
  expect(await all).toEqual([ok('one'), ok('two')])
})

test('an answer that says that the connection is gone reaches its sender once', async () => {
  const { queue, sender, answer, texts } = open()
  const heard: string[] = []
  const losing = sender({
    answered: (error) => {
      heard.push(String(error))
      queue.close(closed)
      return closed
    },
  })
  const lost = queue.send(losing, [query('one')])
  const waiting = queue.send(losing, [query('two')])
  answer(0, 'of no use')
  await expect(lost).rejects.toBe(closed)
  await expect(waiting).rejects.toBe(closed)
  expect(heard).toEqual(['of no use'])
  expect(texts()).toEqual(['one'])
})

test('a closed queue sends nothing', async () => {
  const { queue, sender, texts } = open()
  const underWay = queue.send(sender(), [query('under way')])
  queue.close(closed)
  await expect(underWay).rejects.toBe(closed)
  await expect(queue.send(sender(), [query('later')])).rejects.toBe(closed)
  expect(texts()).toEqual(['under way'])
})

const standStill = (ms: number): void => {
  const until = performance.now() + ms
  while (performance.now() < until);
}

test('an answer that arrives while the event loop is blocked counts as in time', async () => {
  const { queue, sender, answer, silences } = open(1)
  const done = queue.send(sender(), [query('one')])
  // It is due with the deadline, but runs after it, as a socket is read after the timers have run.
  setTimeout(() => answer(0), 1)
  standStill(20)
  expect(await done).toEqual([ok('one')])
  await new Promise(setImmediate)
  expect(silences).toEqual([])
})

test('a server that does not answer is given up after the deadline, which grows with the size of the message', async () => {
  const { queue, sender, silences } = open(2)
  await expect(queue.send(sender(), [query('one')])).rejects.toBe(closed)
  expect(silences).toEqual([2])

  const other = open(2)
  const many = Array.from({ length: 2 * STATEMENTS_PER_DEADLINE + 1 }, (_, n) => ofFramework(`job ${n}`))
  await expect(other.queue.send(other.sender(), many)).rejects.toBe(closed)
  expect(other.silences).toEqual([6])

  // A statement of the application may take as long as it may alone.
  const third = open(2)
  const writes = ['one', 'two', 'three'].map(joinable)
  await expect(third.queue.send(third.sender(), [...writes, ofFramework('advance')])).rejects.toBe(closed)
  expect(third.silences).toEqual([6])
})
