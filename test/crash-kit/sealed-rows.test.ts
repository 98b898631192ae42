import { randomUUID } from 'node:crypto'
import { aesGcm, type JsonValue, type Protection } from '@pawl/core'
import { expect, test } from 'vitest'
import { SealedRows } from '../../packages/crash-kit/src/database/sealed-rows.js'
import type { Row } from '../../packages/crash-kit/src/history.js'
import { judge } from '../../packages/crash-kit/src/oracle/judge.js'
import { crashedRide, RIDES } from './ride-histories.js'

const CODEC = aesGcm({ keys: { k: Buffer.alloc(32, 7) }, perScope: true })
const NAME = { id: randomUUID(), scope: 'rider-1', key: 'key-1' }
const PLACE = { scope: NAME.scope, row: `${NAME.id} ${NAME.key}` }

function sealed(
  codec: Protection,
  column: string,
  value: JsonValue,
  place: { readonly scope: string; readonly row: string } = PLACE,
): string {
  const { keyId, bytes } = codec.seal(Buffer.from(JSON.stringify(value)), { ...place, column })
  return `pawl:sealed:${keyId}:${Buffer.from(bytes).toString('base64')}`
}

function read(
  codec: Protection | null,
  row: Row,
): { readonly row: Row | null; readonly exposed: readonly string[] } {
  const rows = new SealedRows(codec)
  const opened = rows.openKey({ ...NAME, input: null, state: {}, intent: null, ...row })
  return { row: opened, exposed: rows.exposed }
}

test('sealed values are read as what was sealed, and nothing is said of them', () => {
  const result = { id: 'ch_1' }
  const called = { kind: 'called', phase: 'charged', sealed: sealed(CODEC, 'intent', result) }
  const { row, exposed } = read(CODEC, {
    input: sealed(CODEC, 'input', { amount: 5 }),
    state: sealed(CODEC, 'state', { rideId: 'r' }),
    intent: called,
  })
  expect(row).toMatchObject({
    input: { amount: 5 },
    state: { rideId: 'r' },
    intent: { kind: 'called', phase: 'charged', result },
  })
  expect(exposed).toEqual([])
})

test('what is empty need not be sealed, and without a codec nothing is opened', () => {
  expect(
    read(CODEC, { input: null, state: {}, intent: { kind: 'calling', phase: 'charged' } }).exposed,
  ).toEqual([])
  const input = sealed(CODEC, 'input', 1)
  expect(read(null, { input })).toEqual({ row: expect.objectContaining({ input }), exposed: [] })
})

test('a value in the clear, and one of another row, are reported', () => {
  expect(read(CODEC, { input: { amount: 5 } }).exposed).toEqual([
    `The input of row ${NAME.id} is stored in the clear.`,
  ])
  const moved = sealed(CODEC, 'input', 5, { ...PLACE, row: randomUUID() })
  expect(read(CODEC, { input: moved }).exposed).toEqual([
    expect.stringContaining(`The input of row ${NAME.id} does not open where it is stored`),
  ])
})

/** Looks at a part of the place only. */
const tiedTo = (part: 'scope' | 'row' | 'column'): Protection => {
  const placed = (at: Readonly<Record<'scope' | 'row' | 'column', string>>) => ({
    scope: '',
    row: '',
    column: '',
    [part]: at[part],
  })
  return {
    seal: (plain, at) => CODEC.seal(plain, placed(at)),
    open: (value, at) => CODEC.open(value, placed(at)),
    fingerprintSecret: (keyId) => CODEC.fingerprintSecret(keyId),
  }
}

const openedElsewhere = (part: 'scope' | 'row' | 'column') =>
  read(tiedTo(part), { input: sealed(tiedTo(part), 'input', 5) }).exposed.map(
    (each) => /opens in another (.*), too\.$/.exec(each)?.[1],
  )

test('a codec that does not tie a value to each part of its place is reported', () => {
  expect(openedElsewhere('row')).toEqual(['scope', 'column'])
  expect(openedElsewhere('scope')).toEqual(['row', "key's row", 'column'])
  expect(openedElsewhere('column')).toEqual(['row', 'scope', "key's row"])
})

test('it is a violation of its own rule', () => {
  const history = { ...crashedRide().build(), exposed: ['The input of row 1 is stored in the clear.'] }
  expect(judge(history, RIDES, null)).toEqual([
    {
      rule: 'I17',
      title: 'what is protected is sealed, and opens nowhere but in its own place',
      detail: 'The input of row 1 is stored in the clear.',
    },
  ])
})
