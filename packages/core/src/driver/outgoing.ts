import type { QueryConfig } from 'pg'
import { type Sendable, TEXT_ONLY } from './pg-protocol.js'

/** One of the framework's own statements. */
export interface Statement {
  /** What tests and traces call it; empty if it is only a part of the statement before it. */
  readonly name: string
  readonly text: string
  /** The name under which the server may keep it prepared: never the same for two texts. Without one, it is not kept. */
  readonly preparedAs?: string
}

/** A statement with its values, ready to be run. */
export interface Bound {
  readonly statement: Statement
  readonly values?: readonly unknown[]
  /** For values that never change: keeps what is sent. The key says whether the server keeps the statement prepared. */
  readonly ready?: Map<boolean, Outgoing>
}

/** How a transaction begins. */
export interface Begin {
  /** In one message, by itself. */
  readonly alone: Statement
  /** The same, as statements that can travel with another one. */
  readonly together: readonly Bound[]
}

/** What goes over the wire. */
export interface Outgoing {
  /** What tests call it; null if no test may stop there. */
  readonly step: string | null
  /** Set if tests may stop only before it, or only after it. */
  readonly stopsOnly?: 'before' | 'after'
  readonly config: Sendable
  /** Whether it can travel with others. */
  readonly joinable: boolean
}

/** A statement that has the same values each time, or none. */
export function alwaysTheSame(statement: Statement, values: readonly unknown[] = []): Bound {
  return { statement, values, ready: new Map() }
}

/** Returns what is sent for a framework statement. `prepares`: the server keeps it prepared. */
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

/**
 * Returns what is sent for one of the application's queries. `mayJoin`: it may share a message with others. `name`: what it is
 * kept prepared as.
 */
export function outgoingQuery(
  text: string,
  values: readonly unknown[],
  mayJoin: boolean,
  name: string | null,
): Outgoing {
  // Without values, a text may hold several statements, and needs a message of its own.
  const joinable = values.length > 0 && mayJoin
  return { step: 'query', config: { text, values, name: name ?? undefined }, joinable }
}

/** The form in which `pg` takes a single query. */
export function queryOf({ text, values, name, asText }: Sendable): QueryConfig {
  return {
    text,
    ...(values !== undefined && { values: [...values] }),
    ...(name !== undefined && { name }),
    ...(asText === true && { types: TEXT_ONLY }),
  }
}
