import type { QueryConfig } from 'pg'
import { type Sendable, TEXT_ONLY } from './pg-protocol.js'

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
  /** Where the values never change: how it goes out, by whether the server is to keep it prepared. */
  readonly ready?: Map<boolean, Outgoing>
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
  /** Where tests may stop only before it, or only after it. */
  readonly stopsOnly?: 'before' | 'after'
  readonly config: Sendable
  /** Whether it can travel with others. */
  readonly joinable: boolean
}

/** A statement that has the same values each time, or none. */
export function alwaysTheSame(statement: Statement, values: readonly unknown[] = []): Bound {
  return { statement, values, ready: new Map() }
}

/** A framework statement. `prepares`: the server is to keep it prepared. */
export function outgoing(bound: Bound, prepares: boolean): Outgoing {
  const { ready } = bound
  if (ready === undefined) return writeOutgoing(bound, prepares)
  let known = ready.get(prepares)
  if (known === undefined) ready.set(prepares, (known = writeOutgoing(bound, prepares)))
  return known
}

function writeOutgoing({ statement, values, ready }: Bound, prepares: boolean): Outgoing {
  const { name, text, preparedAs } = statement
  const config: Sendable = {
    text,
    values,
    name: prepares ? preparedAs : undefined,
    asText: true,
    repeated: ready === undefined ? undefined : { bytes: null },
  }
  return { step: name === '' ? null : name, config, joinable: true }
}

/** One of the application's queries. `isFirst`: a transaction begins with it. `name`: what it is kept prepared as. */
export function outgoingQuery(
  text: string,
  values: readonly unknown[],
  isFirst: boolean,
  name: string | null,
): Outgoing {
  // Without values, it may be several statements in one text: a message of its own.
  const joinable = values.length > 0 && isFirst
  return { step: 'query', config: { text, values, name: name ?? undefined }, joinable }
}

/** As `pg` takes it by itself. */
export function queryOf({ text, values, name, asText }: Sendable): QueryConfig {
  return {
    text,
    ...(values !== undefined && { values: [...values] }),
    ...(name !== undefined && { name }),
    ...(asText === true && { types: TEXT_ONLY }),
  }
}
