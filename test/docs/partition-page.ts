import { readFile } from 'node:fs/promises'
import { migrate } from '@pawl/core'
import type pg from 'pg'
import { expect } from 'vitest'
import { randomLetters } from '../support/random-letters.js'
import type { TestDatabase } from '../support/test-database.js'

const page = await readFile(new URL('../../docs/partitioning.md', import.meta.url), 'utf8')
const blocks = new Map(
  [...page.matchAll(/^ *```sql\n *-- (.*?)\n(.*?)^ *```$/gms)].map(([, name = '', sql = '']) => [name, sql]),
)

/** A move from plain to partitioned tables, by the SQL of the page, with names of its own. */
export class Move {
  readonly database: TestDatabase
  /** Stands for `pawl`. */
  readonly schema: string

  private constructor(database: TestDatabase) {
    this.database = database
    this.schema = `${database.schema}_${randomLetters()}`
  }

  /** With plain tables only. */
  static async begin(database: TestDatabase): Promise<Move> {
    const move = new Move(database)
    await migrate(database.admin, { schema: move.schema, layout: 'plain' })
    return move
  }

  /** The first step, with few partitions. */
  async makeTables(): Promise<void> {
    await migrate(this.database.admin, { schema: `${this.schema}_new`, layout: 'partitioned', partitions: 4 })
  }

  /** SQL of the page, or like it, about this move's schemas. */
  sql(text: string): string {
    return text
      .replaceAll('pawl_new', `${this.schema}_new`)
      .replaceAll('pawl_old', `${this.schema}_old`)
      .replaceAll(/\bpawl\b/g, this.schema)
      .replaceAll(/\bmy_app\b/g, `${this.schema}_app`)
  }

  /** Runs a block of the page, and returns the rows of its last statement. */
  async run(name: string, on?: pg.ClientBase): Promise<Record<string, unknown>[]> {
    const client = on ?? (await this.database.admin.connect())
    try {
      const sql = this.sql(blocks.get(name) ?? expect.fail(`no SQL '${name}'`))
      // A procedure that commits has to be called alone.
      const statements = sql.includes('CALL ') ? sql.trim().split('\n') : [sql]
      let rows: Record<string, unknown>[] = []
      for (const statement of statements) {
        const result = (await client.query(statement)) as pg.QueryResult | pg.QueryResult[]
        rows = [result].flat().at(-1)?.rows ?? []
      }
      return rows
    } catch (error) {
      // A block that fails in its own transaction leaves it open.
      await client.query('ROLLBACK')
      throw error
    } finally {
      if (on === undefined) (client as pg.PoolClient).release()
    }
  }

  async rows(sql: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
    return (await this.database.admin.query(this.sql(sql), values)).rows as Record<string, unknown>[]
  }

  async drop(): Promise<void> {
    await this.rows('DROP SCHEMA IF EXISTS pawl, pawl_new, pawl_old CASCADE')
  }
}
