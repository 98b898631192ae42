import type { LedgerEntry } from '../stand-in/ledger.js'
import type { Client } from './client.js'
import type { World } from './world.js'

/** What became of one ride, as the customer, the provider's books and the database see it. */
export interface Verdict {
  readonly done: string
  readonly saw: string
  readonly charges: number
  readonly rides: number
  readonly ok: boolean
  /** What did not hold; empty where everything did. */
  readonly wrong: readonly string[]
  /** In place of `held`, where there is more to say. */
  readonly note?: string
}

interface Traces {
  readonly rows: readonly {
    readonly id: string
    readonly charge_id: string | null
    readonly amount: number
  }[]
  readonly charges: readonly LedgerEntry[]
}

/** How it should have ended. */
interface Expected {
  readonly status: number
  readonly charges: number
}

/**
 * Compares the provider's ledger with the database, for the ride of one key. `lastStatus` is what the client got in the end;
 * null for a client that never came back.
 */
export async function judge(
  world: World,
  done: string,
  client: Client,
  lastStatus: number | null,
  expected: Expected = { status: 201, charges: 1 },
): Promise<Verdict> {
  const key = await world.key(client.key)
  const { rows, charges } = await tracesOf(world, client.key)
  const [ride] = rows
  const wrong = [
    lastStatus === null || lastStatus === expected.status
      ? ''
      : `the last answer was ${lastStatus}, not ${expected.status}`,
    key?.status === 'finished' ? '' : `the key is ${key?.status ?? 'not there'}, not finished`,
    key?.response_status === expected.status
      ? ''
      : `the stored answer is ${key?.response_status ?? 'none'}, not ${expected.status}`,
    rows.length === 1 ? '' : `${rows.length} rides for one key`,
    charges.length === expected.charges ? '' : `${charges.length} charges, not ${expected.charges}`,
    charges.every(({ id }) => id === ride?.charge_id) ? '' : 'the ride names another charge',
    charges.every(({ amount }) => amount === ride?.amount) ? '' : 'charged another amount',
  ].filter((text) => text !== '')
  const saw = client.seen.join(', ')
  return { done, saw, charges: charges.length, rides: rows.length, ok: wrong.length === 0, wrong }
}

/** The rides of a key in the database, and their charges in the provider's ledger. */
async function tracesOf(world: World, key: string): Promise<Traces> {
  const { rows } = await world.db.query<Traces['rows'][number]>(
    `SELECT r.id, r.charge_id, r.amount
       FROM rides AS r JOIN pawl.idempotency_keys AS k ON k.scope = r.user_id AND k.id = r.key_id WHERE k.key = $1`,
    [key],
  )
  const { rows: effects } = await world.db.query<{ provider_key: string }>(
    'SELECT provider_key FROM pawl.effects WHERE key = $1',
    [key],
  )
  const keys = effects.map(({ provider_key }) => provider_key)
  const charges = (await world.ledger()).filter(
    ({ id, reference }) => keys.includes(reference) || rows.some(({ charge_id }) => charge_id === id),
  )
  return { rows, charges }
}
