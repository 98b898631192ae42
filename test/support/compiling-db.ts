import {
  DummyDriver,
  type Generated,
  Kysely,
  type KyselyPlugin,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
} from 'kysely'

export interface Database {
  rides: { id: Generated<string>; rider: string; amount: number; charge_id: string | null; at: Date | null }
}

/** A Kysely that compiles for PostgreSQL, and answers nothing. */
export function compilingDb(plugins: KyselyPlugin[] = []): Kysely<Database> {
  return new Kysely<Database>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
    plugins,
  })
}
