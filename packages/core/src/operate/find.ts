import { viewKeySummary } from './page-keys.js'
import { checkText } from '../check-option.js'
import { isUuid } from '../is-uuid.js'
import { COUNT_LIMIT, FIND_BACK_MS, FIND_LIMIT, MAX_KEY_LENGTH, MAX_REASON_LENGTH } from '../limits.js'
import { findEffectsIndexed, findEffectsLately } from '../storage/effects/find-effects-with.js'
import { findKey } from '../storage/keys/find-key.js'
import { findKeyById } from '../storage/keys/find-key-by-id.js'
import { findKeysIndexed, findKeysNamed, type NamedKey } from '../storage/keys/find-keys-named.js'
import { hasScope } from '../storage/keys/has-scope.js'
import type { KeyRow } from '../storage/keys/key-row.js'
import { findSearchIndexes } from '../storage/schema/find-search-indexes.js'
import type { Store } from '../storage/statement.js'
import type { Findings, SearchHit } from './audit.js'
import { viewEffect } from './views.js'

/** What a person typed, without the spaces that come along when it is pasted. */
export function checkSought(text: string): string {
  checkText({ code: 'PAWL_INVALID_OPTION', where: 'find' }, 'text', text, MAX_REASON_LENGTH)
  return text.trim()
}

/**
 * Looks for what a text may name: a key by its id, a scope and a key, a key in any scope, a scope, a provider's reference or a
 * provider key. What has an index is found wherever it is; for the rest, it looks back as far as is bearable, and says how far.
 */
export async function find(store: Store, sought: string): Promise<Findings> {
  const exact = await findExact(store, sought)
  const scopes: SearchHit[] = (await hasScope(store, sought)) ? [{ type: 'scope', scope: sought }] : []
  if (exact.length > 0) return { found: [...exact.map(viewFound), ...scopes], lookedBackTo: null }
  const indexes = await findSearchIndexes(store)
  const named = indexes.keys
    ? await findKeysIndexed(store, sought, FIND_LIMIT)
    : await findKeysNamed(store, sought, FIND_LIMIT, COUNT_LIMIT)
  const effects =
    indexes.references && indexes.providerKeys
      ? await findEffectsIndexed(store, sought, FIND_LIMIT)
      : await findEffectsLately(store, sought, FIND_LIMIT, { forMs: FIND_BACK_MS, mostLookedAt: COUNT_LIMIT })
  const rows = await rowsOf(store, named.keys)
  const lookedBackToMs = latest(named.lookedBackToMs, effects.lookedBackToMs)
  return {
    found: [
      ...rows.map(viewFound),
      ...scopes,
      ...effects.effects.map((effect): SearchHit => ({ type: 'effect', effect: viewEffect(effect) })),
    ],
    lookedBackTo: lookedBackToMs === null ? null : new Date(lookedBackToMs),
  }
}

const viewFound = (row: KeyRow): SearchHit => ({ type: 'key', key: viewKeySummary(row) })

/** What names one key and nothing else: its id, or its scope and its name. */
async function findExact(store: Store, sought: string): Promise<KeyRow[]> {
  const byId = isUuid(sought) ? await findKeyById(store, sought) : null
  return byId === null ? rowsOf(store, splits(sought)) : [byId]
}

/** A separator between a scope and a key, as people paste them from logs and URLs. Either may have it in its name. */
const SEPARATOR = /[\s/,;]+/g
const MAX_SPLITS = 5

function splits(sought: string): NamedKey[] {
  return [...sought.matchAll(SEPARATOR)]
    .slice(0, MAX_SPLITS)
    .map(({ 0: separator, index }) => ({
      scope: sought.slice(0, index),
      key: sought.slice(index + separator.length),
    }))
    .filter(({ scope, key }) => scope !== '' && key !== '' && key.length <= MAX_KEY_LENGTH)
}

async function rowsOf(store: Store, keys: readonly NamedKey[]): Promise<KeyRow[]> {
  const rows: KeyRow[] = []
  for (const { scope, key } of keys) {
    const row = await findKey(store, scope, key)
    if (row !== null) rows.push(row)
  }
  return rows
}

/** Whatever is older than the later of the two was not looked at everywhere. */
function latest(a: number | null, b: number | null): number | null {
  if (a === null || b === null) return a ?? b
  return Math.max(a, b)
}
