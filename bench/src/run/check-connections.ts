import type { ContenderName } from '../contenders/registry.js'
import { POOL_SIZE } from '../limits.js'
import type { BenchDatabase } from './database.js'

/** Contenders that keep their own tables through a second pool. */
const TWO_POOLS: ReadonlySet<ContenderName> = new Set(['dbos', 'openworkflow', 'absurd'])

/** For the bench itself, the background services, and whoever else is connected. */
const SPARE = 20

/** Before anything is measured: a server that refuses connections would fail a contender in the middle of a run. */
export function checkConnections({ settings }: BenchDatabase, contenders: readonly ContenderName[]): void {
  const pools = contenders.reduce((sum, name) => sum + (TWO_POOLS.has(name) ? 2 : 1), 0)
  const needed = pools * POOL_SIZE + SPARE
  const allowed = Number(settings.max_connections)
  if (allowed >= needed) return
  throw new Error(
    `The server allows ${allowed} connections (max_connections); these contenders need ${needed}. ` +
      'Raise it, or ask for fewer with --contenders.',
  )
}
