import type { Client } from 'pg'
import { CREATED } from '../business.js'
import { type PawlVariant, schemaOfVariant } from '../contenders/registry.js'
import type { Entrant } from '../run/entrant.js'
import { A_DAY_AND_AN_HOUR, fillFinishedKeys } from './finished-keys.js'
import { newKeys } from './keyed-load.js'
import type { Mode, Stage } from './scenario.js'

export const LAYOUTS = ['plain', 'partitioned'] as const

type GrowthLayout = (typeof LAYOUTS)[number]

/** How many finished keys a table has before anything is measured. */
export interface Size {
  readonly label: string
  readonly keys: number
}

/** The first is empty; the last is the one whose upkeep is measured. */
export const SIZES: Readonly<Record<Mode, readonly Size[]>> = {
  quick: [
    { label: 'empty table', keys: 0 },
    { label: '20 thousand keys', keys: 20_000 },
    { label: '100 thousand keys', keys: 100_000 },
  ],
  full: [
    { label: 'empty table', keys: 0 },
    { label: '2 million keys', keys: 2_000_000 },
    { label: '10 million keys', keys: 10_000_000 },
  ],
}

/** Tables of one size and layout, with an engine on them. */
export interface Filled {
  readonly label: string
  readonly size: Size
  readonly layout: GrowthLayout
  readonly schema: string
  readonly entrant: Entrant
  /** Finished keys from all over the table. */
  readonly replayedKeys: readonly string[]
}

/** Keys that are replayed in turn: enough that their pages are not the few that everybody has read just now. */
const REPLAYED: Readonly<Record<Mode, number>> = { quick: 200, full: 5_000 }

const SAMPLED_PER_KEY = 10

const FILLING_CLIENTS = 32

function sizeLabel(size: Size, layout: GrowthLayout): string {
  return layout === 'plain' ? size.label : `${size.label}, ${layout}`
}

/** Makes the tables of all sizes, smallest first, so that what is measured last is what was filled last. */
export async function fillSizes({ arena, mode, say }: Stage): Promise<readonly Filled[]> {
  const { observer, url: databaseUrl } = arena.database
  const filled: Filled[] = []
  for (const size of SIZES[mode]) {
    for (const layout of LAYOUTS) {
      const label = sizeLabel(size, layout)
      say(`growth: ${label}`)
      const variant = variantOf(size, layout)
      const schema = schemaOfVariant(variant)
      const entrant = await arena.enter(variant)
      if (size.keys > 0) {
        await fillFinishedKeys(entrant, {
          databaseUrl,
          variant,
          count: size.keys,
          finishedHoursAgo: A_DAY_AND_AN_HOUR,
        })
        await readIndexes(observer, schema)
      }
      const replayedKeys = await finishedKeys(observer, { size, schema, entrant }, REPLAYED[mode])
      filled.push({ label, size, layout, schema, entrant, replayedKeys })
    }
  }
  return filled
}

function variantOf({ keys }: Size, layout: GrowthLayout): PawlVariant {
  return layout === 'plain' ? `pawl@growth_${keys}` : `pawl-partitioned@growth_${keys}`
}

async function finishedKeys(
  observer: Client,
  { size, schema, entrant }: Pick<Filled, 'size' | 'schema' | 'entrant'>,
  count: number,
): Promise<readonly string[]> {
  if (size.keys === 0) {
    const keys = newKeys(count)
    await entrant.each({ keys, clients: FILLING_CLIENTS, expectedStatus: CREATED })
    return keys
  }
  // Whole pages are sampled, and partitions one by one: more than needed, so that enough are found.
  const percent = Math.min(100, ((SAMPLED_PER_KEY * count) / size.keys) * 100)
  const { rows } = await observer.query<{ key: string }>(
    `SELECT key FROM "${schema}".idempotency_keys TABLESAMPLE SYSTEM (${percent})
      WHERE status = 'finished' AND expires_at > now() + interval '1 hour' ORDER BY md5(key) LIMIT ${count}`,
  )
  return rows.map(({ key }) => key)
}

/** A server that has run for a while has its indexes in memory, and not those that were filled last alone. */
async function readIndexes(observer: Client, schema: string): Promise<void> {
  try {
    await observer.query('CREATE EXTENSION IF NOT EXISTS pg_prewarm')
  } catch {
    // A given server may not have it, or not allow it: the warm-up has to do.
    return
  }
  await observer.query(
    `SELECT pg_prewarm(i.indexrelid, 'read') FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
      WHERE c.relkind = 'i' AND c.relnamespace = $1::regnamespace`,
    [schema],
  )
}
