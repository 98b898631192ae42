import { describe, expect, test } from 'vitest'
import { Wire } from '../../bench/src/measure/wire.js'

/** A message of the server: its type, its length, and what it says. */
function message(type: string, content: string): Buffer {
  const length = Buffer.alloc(4)
  length.writeInt32BE(4 + content.length)
  return Buffer.concat([Buffer.from(type), length, Buffer.from(content)])
}

const done = message('C', 'SELECT 1\0')
const ready = message('Z', 'I')
// A row whose content looks like the beginning of another message.
const row = message('D', 'C\0\0\0\u0005C')
const query = Buffer.from('Q')

describe('statements', () => {
  const answers = Buffer.concat([row, done, row, done, ready])

  test('are counted by the messages that end them', () => {
    const wire = new Wire()
    wire.fromServer(answers)
    expect(wire.statements).toBe(2)
  })

  test.each(Array.from({ length: 12 }, (_, at) => at + 1))('in chunks of %s bytes', (size) => {
    const wire = new Wire()
    for (let at = 0; at < answers.length; at += size) wire.fromServer(answers.subarray(at, at + size))
    expect(wire.statements).toBe(2)
  })
})

describe('round trips', () => {
  test('begin when the client speaks after the server', () => {
    const wire = new Wire()
    wire.fromClient(query)
    wire.fromServer(done)
    wire.fromServer(ready)
    wire.fromClient(query)
    wire.fromServer(ready)
    expect(wire.roundTrips).toBe(2)
  })

  test('include everything that is sent before an answer comes', () => {
    const wire = new Wire()
    wire.fromClient(query)
    wire.fromClient(query)
    wire.fromServer(done)
    expect(wire.roundTrips).toBe(1)
  })
})

describe('encryption', () => {
  const sslRequest = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

  test('that is refused is answered with one letter, which is not a message', () => {
    const wire = new Wire()
    wire.fromClient(sslRequest)
    wire.fromServer(Buffer.from('N'))
    wire.fromClient(query)
    wire.fromServer(done)
    expect(wire).toMatchObject({ statements: 1, isEncrypted: false })
  })

  test('that is granted ends all counting', () => {
    const wire = new Wire()
    wire.fromClient(sslRequest)
    wire.fromServer(Buffer.concat([Buffer.from('S'), done]))
    wire.fromServer(done)
    expect(wire).toMatchObject({ statements: 0, isEncrypted: true })
  })
})
