import type { QueryConfig } from 'pg'
import { type Sendable, TEXT_ONLY } from './batch.js'

/** One of the framework's own statements. */
export interface Statement {
  /** As tests and traces name it; empty where it is but a part of the one before it. */
  readonly name: string
  readonly text: string
  /** What the server may keep it prepared as: never the same for two texts. Without it, it is not kept. */
  readonly preparedAs?: string
}

/** A statement with its values, ready to be run. */
export interface Bound {
  readonly statement: Statement
  readonly values?: readonly unknown[]
}

/** How a transaction begins. */
export interface Begin {
  /** In one message, by itself. */
  readonly alone: Statement
  /** The same as statements that can travel with another. */
  readonly together: readonly Bound[]
}

/** What goes over the wire. */
export interface Outgoing {
  /** As tests name it; null where none may stop. */
  readonly step: string | null
  readonly config: Sendable
  /** Whether it can travel with others. */
  readonly joinable: boolean
}

/** A framework statement. `prepares`: the server is to keep it prepared. */
export function outgoing({ statement, values }: Bound, prepares: boolean): Outgoing {
  const { name, text, preparedAs } = statement
  const config: Sendable = {
    text,
    asText: true,
    ...(values !== undefined && { values: [...values] }),
    ...(prepares && preparedAs !== undefined && { name: preparedAs }),
  }
  return { step: name === '' ? null : name, config, joinable: true }
}

/** As `pg` takes it by itself. */
export function queryOf({ text, values, name, asText }: Sendable): QueryConfig {
  return {
    text,
    ...(values !== undefined && { values }),
    ...(name !== undefined && { name }),
    ...(asText === true && { types: TEXT_ONLY }),
  }
}
