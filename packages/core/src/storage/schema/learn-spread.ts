import type { Session } from '../../driver/session.js'
import type { Lies } from '../../driver/spread.js'
import type { Layout } from './layout.js'
import { readLayout } from './read-layout.js'
import type { Tables } from '../tables.js'

const LIES = {
  plain: 'together',
  partitioned: 'in_partitions',
  citus: 'over_servers',
} as const satisfies Record<Layout['kind'], Lies>

/** Finds out whether the tables are distributed over several servers. Tests do not stop at its statements. */
export function learnSpread(tables: Tables): (session: Session) => Promise<void> {
  return async (session) => {
    const layout = await readLayout({ session, tables }, (statement) => {
      const { statement: read, values } = statement.bind(tables, [])
      // Once is no reason to keep it prepared.
      return session.run({ name: '', text: read.text }, values, 'read')
    })
    // Without tables there is nothing to know yet.
    if (layout !== null) tables.spread.learn(LIES[layout.kind])
  }
}
