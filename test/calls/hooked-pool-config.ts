import type pg from 'pg'

/** A pool with an `onConnect` hook. The types of `pg` say that it returns nothing, but the pool awaits what it returns. */
export function hookedPoolConfig(
  config: pg.PoolConfig,
  onConnect: (client: pg.ClientBase) => unknown,
): pg.PoolConfig {
  return Object.assign({}, config, { onConnect })
}
