import type { EngineOptions } from '@pawl/core'
import { createProbedEngine, type Position } from '@pawl/core/internal'
import type pg from 'pg'
import type { Database } from './rides.js'

/** A position with its number among those of the same name, as `phase/step#occurrence:when`. */
function nameOf(position: Position, occurrence: number): string {
  return `${position.phase}/${position.step}#${occurrence}:${position.when}`
}

/** Counts positions, so that each has its own name. */
export function positionNamer(): (position: Position) => string {
  const seen = new Map<string, number>()
  return (position) => {
    const plain = `${position.phase}/${position.step}:${position.when}`
    const occurrence = (seen.get(plain) ?? 0) + 1
    seen.set(plain, occurrence)
    return nameOf(position, occurrence)
  }
}

/** Cuts every connection of a pool as the end of its process would: no Terminate message, no ROLLBACK. */
export function cutConnections(pool: pg.Pool): void {
  const { _clients: clients } = pool as unknown as {
    _clients: { connection: { stream: { destroy(): void } } }[]
  }
  for (const client of clients) client.connection.stream.destroy()
}

/**
 * An engine that dies at one position: nothing runs after it, no catch, no finally, no renewal, and its connections
 * are cut. `died` resolves then, and whatever was awaited from the engine never does.
 */
export function engineThatDiesAt<DB = Database>(options: EngineOptions<DB>, at: string) {
  const name = positionNamer()
  let dead = false
  let onDied: () => void
  const died = new Promise<void>((resolve) => {
    onDied = resolve
  })
  const engine = createProbedEngine<DB>(options, (position) => {
    if (!dead && name(position) === at) {
      dead = true
      engine.halt()
      cutConnections(options.pool)
      onDied()
    }
    return dead ? new Promise<never>(() => {}) : undefined
  })
  return { engine, died }
}

/** An engine that stops at one position until it is let go: a frozen process that wakes up. */
export function engineThatFreezesAt(options: EngineOptions<Database>, at: string) {
  const name = positionNamer()
  let wake: () => void
  const woken = new Promise<void>((resolve) => {
    wake = resolve
  })
  let onFrozen: () => void
  const frozen = new Promise<void>((resolve) => {
    onFrozen = resolve
  })
  const engine = createProbedEngine<Database>(options, (position) => {
    if (name(position) !== at) return
    onFrozen()
    return woken
  })
  return { engine, frozen, wake: () => wake() }
}
