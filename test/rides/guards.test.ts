import { expect, test } from 'vitest'
import { askForRide, expectBalancedBooks, json, newKey, RIDE } from '../support/rides-client.js'
import { Rides } from '../support/rides-processes.js'
import { onlyDeep } from '../support/amounts.js'

type Read = (
  text: string,
) => { readonly current: string; readonly keys: Readonly<Record<string, Buffer>> } | null

/** A file of the example, which is a project of its own. */
const load = async <Module>(file: string) =>
  (await import(new URL(`../../examples/rides/src/${file}`, import.meta.url).href)) as Module

const KEY = 'ab'.repeat(32)
const OTHER = 'cd'.repeat(32)

test('PROTECT_KEY is one key or a list, and nothing else', async () => {
  const { readProtectKeys } = await load<{ readProtectKeys: Read }>('protect-keys.ts')
  expect(readProtectKeys(KEY)).toEqual({ current: 'k1', keys: { k1: Buffer.from(KEY, 'hex') } })
  expect(readProtectKeys(`new:${OTHER},k1:${KEY}`)).toMatchObject({ current: 'new' })
  for (const wrong of ['', 'ab', `${KEY}0`, `a:${KEY},a:${OTHER}`, `${KEY},`, `a b:${KEY}`, `a:b:${KEY}`])
    expect(readProtectKeys(wrong), wrong).toBeNull()
})

test('unset, each is off', async () => {
  const { readConfig } = await load<{ readConfig: (env: object) => object }>('config.ts')
  const config = readConfig({ DATABASE_URL: 'postgresql://x/y', STRIPE_API_KEY: 'sk_test' })
  expect(config).toMatchObject({
    afterExpiry: 'refuse',
    retentionMs: null,
    wipe: 'nothing',
    protectKey: null,
    limitNewPerMinute: null,
    limitUnfinished: null,
    waitersPerScope: null,
  })
})

const TABLES = ['idempotency_keys', 'effects', 'staged_jobs', 'interventions']

/** Everything that Pawl's tables hold, as text; bytes also as what they spell. */
async function dump(rides: Rides): Promise<string> {
  const tables = await Promise.all(
    TABLES.map((table) =>
      rides.rows<{ row: string }>(`SELECT to_jsonb(t)::text AS row FROM pawl.${table} AS t`),
    ),
  )
  const text = tables.flatMap((rows) => rows.map(({ row }) => row)).join('\n')
  const bytes = [...text.matchAll(/\\x([0-9a-f]+)/g)].map(([, digits = '']) =>
    Buffer.from(digits, 'hex').toString('latin1'),
  )
  return [text, ...bytes].join('\n')
}

test.each([
  ['on', { PROTECT_KEY: KEY }, false],
  ['off, for comparison', {}, true],
])('with protection %s, what the tables show of a ride', async (_, env, shows) => {
  const rides = await Rides.start()
  try {
    const api = await rides.startApi({ env })
    const key = newKey()
    const answer = await askForRide(api.url, key)
    expect(answer.status).toBe(201)
    expect((await askForRide(api.url, newKey(), { token: 'rider-declined' })).status).toBe(402)
    expect(json(await askForRide(api.url, key))).toEqual(json(answer))
    const { id, charge_id: charge } = json(answer)
    const secrets = [
      ...Object.values(RIDE).map(String),
      'pm_card_visa',
      'pm_card_chargeDeclined',
      String(charge),
      String(id),
      'card_declined',
    ]
    const text = await dump(rides)
    const seen = secrets.filter((secret) => text.includes(secret))
    if (shows) expect(seen).toEqual(expect.arrayContaining([String(charge), String(RIDE.origin_lat)]))
    else expect(seen).toEqual([])
    // The record of the charge is there, with the provider key that reconciliation goes by.
    const effects = await rides.rows<{ provider_key: string }>('SELECT provider_key FROM pawl.effects')
    const ledger = await rides.ledger()
    expect(effects.map(({ provider_key }) => provider_key)).toEqual(ledger.map(({ reference }) => reference))
    if (shows) await expectBalancedBooks(rides)
  } finally {
    await rides.end()
  }
})

test('a rider who sprays keys is limited, keeps every answer, and takes nothing from another rider', async () => {
  const rides = await Rides.start()
  try {
    const api = await rides.startApi({ env: { LIMIT_NEW_PER_MINUTE: '3' } })
    const keys = Array.from({ length: 8 }, newKey)
    const answers = []
    for (const key of keys) answers.push(await askForRide(api.url, key))
    expect(answers.map(({ status }) => status).slice(0, 3)).toEqual([201, 201, 201])
    const limited = answers.filter(({ status }) => status === 429)
    // A token comes back every twenty seconds.
    expect(limited.length).toBeGreaterThanOrEqual(3)
    expect(json(limited[0] as (typeof answers)[number])).toMatchObject({ code: 'too_many_requests' })
    expect(json(await askForRide(api.url, String(keys[0])))).toEqual(
      json(answers[0] as (typeof answers)[number]),
    )
    const other = await askForRide(api.url, newKey(), { token: 'rider-2' })
    expect(other.status).toBe(201)
    expect(await rides.ledger()).toHaveLength(answers.length - limited.length + 1)
  } finally {
    await rides.end()
  }
})

onlyDeep(() => {
  test('with another key in front, what the old one sealed is still replayed', async () => {
    const rides = await Rides.start()
    try {
      const key = newKey()
      const before = await rides.startApi({ env: { PROTECT_KEY: KEY } })
      const answer = await askForRide(before.url, key)
      const after = await rides.startApi({ env: { PROTECT_KEY: `new:${OTHER},k1:${KEY}` } })
      expect(json(await askForRide(after.url, key))).toEqual(json(answer))
    } finally {
      await rides.end()
    }
  })
})
