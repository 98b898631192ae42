import { createBackground, type Engine } from '@pawl/core'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Database } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'
import { engineOn, ORDER, placeOrder } from './filled-database.js'
import { pawlOn } from './pawl.js'

let database: TestDatabase
let engine: Engine<Database>
beforeEach(async () => {
  database = await TestDatabase.create()
  engine = engineOn(database)
})
afterEach(async () => {
  await engine.close()
  await database.drop()
})

const REQUEST = { scope: 'shop', key: 'k', input: ORDER }

const complete = () => createBackground({ engine }).completer?.runOnce()

describe('drain', () => {
  beforeEach(async () => {
    await engine.enqueue(placeOrder, REQUEST)
  })

  test('prints what is left', async () => {
    const { exit, out } = await pawlOn(database, 'drain', 'place-order@2')
    expect(exit).toBe(3)
    expect(out).toMatch(/^place-order +2 +started +0 +0 +1 +0 /m)
    expect(out).toMatch(/^1 of place-order@2 in flight\.$/m)
    expect(await pawlOn(database, 'drain', 'place-order@1')).toMatchObject({
      exit: 0,
      out: 'Nothing of place-order@1 is in flight.\n',
    })
    const json = await pawlOn(database, 'drain', 'place-order@2', '--json')
    expect(JSON.parse(json.out)).toMatchObject({ pipeline: 'place-order', version: 2, left: 1 })
  })

  test('says when it finds no key of a pipeline at all', async () => {
    await complete()
    const finished = await pawlOn(database, 'drain', 'place-order@2')
    expect(finished).toMatchObject({ exit: 0, out: 'Nothing of place-order@2 is in flight.\n' })
    const misspelt = await pawlOn(database, 'drain', 'place-oder@2')
    expect(misspelt.exit).toBe(0)
    expect(misspelt.out).toMatch(
      /^Nothing of place-oder@2 is in flight\.\nNo key of a pipeline 'place-oder' was found/,
    )
    const json = async (name: string) =>
      JSON.parse((await pawlOn(database, 'drain', name, '--json')).out) as object
    expect(await json('place-order@2')).toMatchObject({ left: 0, known: true })
    expect(await json('place-oder@2')).toMatchObject({ left: 0, known: false })
  })

  test('ends with --wait when nothing is left', async () => {
    const waiting = pawlOn(database, 'drain', 'place-order@2', '--wait')
    await complete()
    expect(await waiting).toMatchObject({ exit: 0, out: 'Nothing of place-order@2 is in flight.\n' })
  })

  test('stops waiting after --timeout', async () => {
    const { exit, out, err } = await pawlOn(database, 'drain', 'place-order@2', '--wait', '--timeout', '10ms')
    expect(exit).toBe(3)
    expect(out).toMatch(/^1 of place-order@2 in flight\.$/m)
    expect(err).toBe('1 in flight …\n')
  })
})
