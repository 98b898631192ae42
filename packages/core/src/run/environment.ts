import type { NameHasher } from '../announce/name-hasher.js'
import type { Probe } from '../driver/probe.js'
import type { SessionPool } from '../driver/session-pool.js'
import type { Registry } from '../pipeline/registry.js'
import type { SettingsBook } from '../pipeline/settings-book.js'
import type { Tables } from '../storage/tables.js'

/**
 * Size caps in bytes. The row is rewritten at every phase, so it has to stay small.
 *
 * @example
 * createEngine({ pool, pipelines, caps: { responseBytes: 8 * 1024 * 1024 } })
 */
export interface Caps {
  /** The input as JSON. Default 256 KiB. */
  readonly inputBytes: number
  /** The state as JSON, and each staged job's payload. Default 64 KiB. */
  readonly stateBytes: number
  /** The response's body. Default 2 MiB. */
  readonly responseBytes: number
  /** The response's headers, names and values together. Default 8 KiB: what proxies take. */
  readonly headerBytes: number
  /**
   * What a call returned, as JSON. Default 1 MiB. It is stored only if its `settle` fails. A result over the cap fails the
   * phase in strict mode, and is warned about otherwise; either way the call is not made again.
   */
  readonly resultBytes: number
}

/** What the parts of one engine share. */
export interface Environment {
  readonly sessions: SessionPool
  readonly tables: Tables
  readonly registry: Registry
  readonly settings: SettingsBook
  readonly caps: Caps
  /** Keeps the provider keys of two applications on one provider account apart. */
  readonly namespace: string
  /** Names keys and scopes in messages. */
  readonly names: NameHasher
  /** For the framework's statements that run outside a phase's transaction. */
  readonly lockTimeoutMs: number
  readonly probe: Probe | null
}
