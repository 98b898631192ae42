import { randomUUID } from 'node:crypto'
import { type Engine, type EngineOptions, type Outcome, respond } from '@pawl/core'
import { sql } from 'kysely'
import type pg from 'pg'
import { createEngine, type Database, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

type LocalPhase = Parameters<ReturnType<typeof pipeline<null>>['local']>[1]
export type Tx = Parameters<LocalPhase>[0]['tx']

/** A database with a table of notes, for phases that do nothing but write there. */
export async function createNotesDatabase(): Promise<TestDatabase> {
  const database = await TestDatabase.create()
  await database.rows('CREATE TABLE notes (text text)')
  return database
}

/** Writes a note in the transaction that executes it. */
export const note = (text: string) => sql`INSERT INTO notes VALUES (${text})`

/** The text of every note that was committed. */
export async function notesIn(database: TestDatabase): Promise<string[]> {
  return (await database.rows<{ text: string }>('SELECT text FROM notes')).map(({ text }) => text)
}

export const newRequest = () => ({ scope: 's', key: randomUUID(), input: null })

interface Runner {
  readonly engine: Engine<Database>
  readonly run: () => Promise<Outcome>
}

/** A pipeline of one phase, and an engine that runs it on a pool. */
export function runnerOf(
  database: TestDatabase,
  pool: pg.Pool,
  phase: (tx: Tx) => Promise<void>,
  options: Partial<EngineOptions<Database>> = {},
): Runner {
  const noted = pipeline<null>({ name: 'note', version: 1 })
    .local('noted', ({ tx }) => phase(tx))
    .finish(() => respond(200))
  const engine = createEngine({ pool, pipelines: [noted], schema: database.schema, ...options })
  return { engine, run: () => engine.execute(noted, newRequest()) }
}
