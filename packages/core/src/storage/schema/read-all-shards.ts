import { sqlStateOf } from '../../driver/postgres-error.js'
import { ASK_SERVER_MS, SERVER_AWAY_MS } from '../../limits.js'
import type { RunStatement, Store } from '../statement.js'
import type { Tables } from '../tables.js'
import { askServer, ShardFailed } from './ask-server.js'
import { findPlacements, type Placement } from './find-placements.js'
import { type Value, withValues } from './with-values.js'

type Row = Readonly<Record<string, string | null>>

/** Until when each server that did not answer is left alone, on this process's monotonic clock. */
const away = new WeakMap<Tables, Map<string, number>>()

/**
 * Runs a statement that reads a whole table, wherever its parts are. One server that is away must not keep the others'
 * rows from being found: then every server is asked by itself, and what does not answer is left out, and left alone for a
 * while. Without their order: each server has its own.
 */
export async function readAllShards(
  statement: RunStatement,
  store: Store,
  values: readonly Value[],
  table: string,
): Promise<readonly Row[]> {
  const { tables } = store
  if (!tables.spread.overServers) return (await statement(store, values, 'read')).rows
  let refused: unknown = null
  if (!someAreAway(tables)) {
    try {
      return (await statement(store, values, 'read')).rows
    } catch (error) {
      if (sqlStateOf(error) === null) throw error
      refused = error
    }
  }
  const { text } = statement.bind(tables, values).statement
  const answers = await askEveryServer(store, table, (shard) =>
    commandFor(withValues(text, values), table, shard),
  )
  if (answers.rows === null)
    throw refused ?? answers.error ?? new Error('No server of the cluster has the table.')
  return answers.rows
}

/** `rows` is null if no server answered; `error` is then what the last of them said. */
async function askEveryServer(
  store: Store,
  table: string,
  command: (shard: string) => string,
): Promise<{ readonly rows: readonly Row[] | null; readonly error: unknown }> {
  const { session, tables } = store
  const placements = await findPlacements(store, table)
  const known = away.get(tables) ?? new Map<string, number>()
  away.set(tables, known)
  // The server gives up before that, and the session goes on with the next.
  session.setDeadline(ASK_SERVER_MS)
  const rows: Row[] = []
  let last: unknown = null
  let answered = false
  const servers = [...serversOf(placements)]
  const isAway = (server: string): boolean => (known.get(server) ?? 0) > performance.now()
  // Where none seems to be there, it may not be their fault.
  const asked = servers.every(([server]) => isAway(server))
    ? servers
    : servers.filter(([server]) => !isAway(server))
  for (const [server, shards] of asked) {
    try {
      rows.push(...(await askServer(store, shards, command)).map(asText))
      known.delete(server)
      answered = true
    } catch (error) {
      if (!(error instanceof ShardFailed) && sqlStateOf(error) === null) throw error
      known.set(server, performance.now() + SERVER_AWAY_MS)
      last = error
    }
  }
  return { rows: answered ? rows : null, error: last }
}

function serversOf(placements: readonly Placement[]): ReadonlyMap<string, readonly Placement[]> {
  const servers = new Map<string, Placement[]>()
  for (const placement of placements) {
    const server = `${placement.host}:${placement.port}`
    servers.set(server, [...(servers.get(server) ?? []), placement])
  }
  return servers
}

/** All rows of one shard as one value, since that is all that a command can return. */
const commandFor = (text: string, table: string, shard: string): string =>
  `SELECT coalesce(pg_catalog.json_agg(f), '[]') FROM (${text.replaceAll(table, () => shard)}) AS f`

/** As a statement would return it. */
function asText(row: Readonly<Record<string, unknown>>): Row {
  return Object.fromEntries(Object.entries(row).map(([column, value]) => [column, textOf(value)]))
}

function textOf(value: unknown): string | null {
  if (typeof value === 'boolean') return value ? 't' : 'f'
  return value === null || typeof value === 'string' ? value : JSON.stringify(value)
}

function someAreAway(tables: Tables): boolean {
  const now = performance.now()
  const known = away.get(tables)
  return known !== undefined && [...known.values()].some((until) => until > now)
}
