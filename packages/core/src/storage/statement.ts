import type { QueryResult } from 'pg'
import type { Bound, Statement } from '../driver/outgoing.js'
import { preparedAs } from '../driver/prepared-name.js'
import type { Session } from '../driver/session.js'
import type { Alone } from '../driver/stand-alone.js'
import { qualified } from './qualified.js'
import type { Tables } from './tables.js'

type Row = Record<string, string | null>

/** A session, and the tables its statements are about. */
export interface Store {
  readonly session: Session
  readonly tables: Tables
}

/** Runs a statement with values. */
export interface RunStatement {
  (store: Store, values: readonly unknown[], does?: Alone): Promise<QueryResult<Row>>
  /** Only binds the values to it, so that it can be run together with others. */
  bind(tables: Tables, values: readonly unknown[]): Bound
}

type Write = (tables: Tables) => string

/**
 * Names a statement and writes its text once per schema, in such a way that nothing on the search path can take part in
 * it. The text never contains values: those are parameters. `overServers`: the text where the tables are distributed over several
 * servers, if the other one cannot be executed there. This is the only place that chooses between the two.
 */
export function defineStatement(name: string, write: Write, overServers: Write = write): RunStatement {
  const written = { one: new WeakMap<Tables, Statement>(), many: new WeakMap<Tables, Statement>() }
  const statementOf = (tables: Tables): Statement => {
    const areMany = tables.spread.overServers
    const kept = written[areMany ? 'many' : 'one']
    const known = kept.get(tables)
    if (known !== undefined) return known
    const text = qualified((areMany ? overServers : write)(tables))
    const statement = { name, text, preparedAs: preparedAs(name, text) }
    kept.set(tables, statement)
    return statement
  }
  return Object.assign(
    ({ session, tables }: Store, values: readonly unknown[], does?: Alone) =>
      session.run(statementOf(tables), values, does),
    { bind: (tables: Tables, values: readonly unknown[]) => ({ statement: statementOf(tables), values }) },
  )
}

/**
 * For statements that name one row: the same as `status = …`, written so that the planner does not recognize it as the
 * condition of a partial index. While few keys run, the planner considers that index shorter than the one on (scope, key);
 * then many run, and every advance reads all of them. Under SERIALIZABLE, phases of unrelated keys would abort each other.
 */
export const statusIs = (status: 'running' | 'stuck' | 'finished', row = 'k.'): string =>
  `${row}status || '' = '${status}'`

/**
 * The database's clock. It is read when a statement arrives, and a statement waits for a lock only briefly, so a lease is
 * at most that much too short, and is believed over at most that much too late: both on the safe side. Unlike
 * `clock_timestamp()` it is stable, which lets it serve as the bound of an index scan and travel to other servers.
 */
export const NOW = 'statement_timestamp()'

/**
 * Milliseconds since the epoch, without a JavaScript Date in between. In UTC first: that makes it immutable, as what a
 * write returns has to be where tables are distributed.
 */
export const epochMs = (expression: string): string =>
  `floor(extract(epoch FROM timezone('UTC'::text, ${expression})) * 1000)`

/** The same in microseconds, which is all that a moment has: for where a list goes on. */
export const epochUs = (expression: string): string => `floor(extract(epoch FROM ${expression}) * 1000000)`

/** The moment that is so many microseconds after the epoch. */
export const momentOfUs = (parameter: string): string =>
  `('epoch'::timestamptz + (${parameter}::double precision * interval '1 microsecond'))`

/** ISO 8601 in UTC, to the microsecond, whatever the session's settings. */
export const momentText = (moment: string): string =>
  `pg_catalog.to_char(pg_catalog.timezone('UTC'::text, ${moment}), 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'::text)`

/** The same in seconds, and not rounded. */
export const epochSeconds = (expression: string): string =>
  `extract(epoch FROM timezone('UTC'::text, ${expression}))`

/**
 * The database's clock as a number of seconds, for moments that are computed from a row. Adding an interval to a `timestamptz` may
 * depend on the time zone, and what depends on anything but the row is not executed where tables are distributed.
 */
export const CLOCK = `(SELECT ${epochSeconds(NOW)} AS seconds) AS clock`

/** The moment that is so many seconds after `CLOCK`. */
export const momentIn = (seconds: string): string =>
  `to_timestamp((clock.seconds + (${seconds}))::double precision)`

/** An interval of a number of milliseconds. */
export const msInterval = (parameter: string): string =>
  `(${parameter}::double precision * interval '1 millisecond')`

/**
 * Arrays side by side, as the columns of one table. `unnest` itself accepts several only when it is not schema-qualified.
 */
export const unnested = (...arrays: readonly string[]): string =>
  `ROWS FROM (${arrays.map((array) => `unnest(${array})`).join(', ')})`

/**
 * Rows that were found before, by these columns, to be looked up one by one, however many they are. The planner takes an
 * array that it does not know for one of ten elements, and a limit that it does not know for a tenth of the rows. If it
 * knew of a thousand rows, it would rather read the whole table; and where the table is divided, far too soon: for each row
 * it adds up the costs of all partitions, of which only one is read.
 */
export const eachOf = (tables: Tables, found: string, columns: readonly string[]): string =>
  oneByOne(
    tables,
    columns,
    columns.map((column) => `ARRAY(SELECT ${column} FROM ${found})`),
    `count(*) FROM ${found}`,
  )

/** The same for rows that are given: the arrays of their columns, by the names of the columns. */
export function eachGiven(tables: Tables, arrays: Readonly<Record<string, string>>): string {
  const given = Object.values(arrays)
  const unknown = given.map((array) => `ARRAY(SELECT unnest(${array}))`)
  return oneByOne(tables, Object.keys(arrays), unknown, `cardinality(${given[0]})`)
}

/** Citus does not execute a limit that it has to look up. The rows are then few: those of one shard. */
function oneByOne(
  { spread }: Tables,
  columns: readonly string[],
  arrays: readonly string[],
  all: string,
): string {
  const limit = spread.overServers ? '' : ` LIMIT (SELECT ${all})`
  return `(SELECT * FROM ${unnested(...arrays)} AS each (${columns.join(', ')})${limit}) AS each`
}
