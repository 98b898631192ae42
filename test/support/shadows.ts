import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import type { TestDatabase } from './test-database.js'

const PACKAGES = fileURLToPath(new URL('../../packages', import.meta.url))

const literal = (value: unknown): string => pg.escapeLiteral(JSON.stringify(value))

/** Every word in lower case in the sources of these packages, which includes everything that their SQL calls. */
function wordsOf(packages: readonly string[]): string[] {
  const words = packages.flatMap((name) => {
    const folder = `${PACKAGES}/${name}/src`
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) =>
      file.endsWith('.ts'),
    )
    return files.flatMap(
      (file) => readFileSync(`${folder}/${file}`, 'utf8').match(/\b[a-z_][a-z0-9_]*\b/g) ?? [],
    )
  })
  return [...new Set(words)]
}

/** Operators that PostgreSQL does not have for these pairs of types, and that would match exactly if somebody made them. */
const MIXED_TYPES = [
  'smallint',
  'integer',
  'bigint',
  'double precision',
  'numeric',
  'text',
  'interval',
  'name',
  'oid',
]
const COMPARISONS = ['=', '<>', '<', '>', '<=', '>=']
const CALCULATIONS = ['+', '-', '*', '/', '%', '^', '||', '&', '#']

/**
 * A schema that has one of everything in `pg_catalog` that our SQL could call: all operators; every function, aggregate,
 * type and catalog whose name is a word of our sources; and operators of types that PostgreSQL has none for.
 */
export class Shadows {
  readonly schema: string
  readonly #database: TestDatabase

  private constructor(database: TestDatabase) {
    this.#database = database
    this.schema = `${database.businessSchema}_shadows`
  }

  /** With `clone`, each does what its original does. With `raise`, each fails when it is called. */
  static async plant(database: TestDatabase, kind: 'clone' | 'raise'): Promise<Shadows> {
    const shadows = new Shadows(database)
    const words = wordsOf(['core', 'cli', 'graphile-worker'])
    await database.admin.query(`CREATE SCHEMA ${shadows.schema}`)
    await database.admin.query(
      PLANTING.replaceAll('$schema', shadows.schema)
        .replaceAll('$words', literal(words))
        .replaceAll('$types', literal(MIXED_TYPES))
        .replaceAll('$comparisons', literal(COMPARISONS))
        .replaceAll('$calculations', literal(CALCULATIONS))
        .replaceAll('$raises', String(kind === 'raise')),
    )
    return shadows
  }

  /** A search path with the shadows before everything else, even before what PostgreSQL brings. */
  get first(): string {
    return `-c search_path=${this.schema},${this.#database.businessSchema},pg_catalog`
  }

  /** The usual search path: PostgreSQL's own things come first, so that only what fits better than those is called. */
  get behindCatalog(): string {
    return `-c search_path=${this.#database.businessSchema},${this.schema}`
  }

  /** How many there are of each kind. */
  async count(): Promise<Record<string, number>> {
    const rows = await this.#database.rows<{ kind: string; count: number }>(
      `SELECT 'operators' AS kind, count(*)::int FROM pg_operator WHERE oprnamespace = to_regnamespace($1)
       UNION ALL SELECT 'functions', count(*)::int FROM pg_proc WHERE pronamespace = to_regnamespace($1) AND prokind <> 'a'
       UNION ALL SELECT 'aggregates', count(*)::int FROM pg_proc WHERE pronamespace = to_regnamespace($1) AND prokind = 'a'
       UNION ALL SELECT 'types', count(*)::int FROM pg_type WHERE typnamespace = to_regnamespace($1) AND typtype = 'd'
       UNION ALL SELECT 'catalogs', count(*)::int FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'v'`,
      [this.schema],
    )
    return Object.fromEntries(rows.map(({ kind, count }) => [kind, count]))
  }

  /** The shadows that a statement refers to, whether or not its run would get that far. */
  async foundIn(client: pg.ClientBase, statement: string): Promise<string[]> {
    return this.#parsed(client, statement, async (name) => {
      const rows = await this.#database.rows<{ shadow: string }>(
        `SELECT DISTINCT pg_describe_object(refclassid, refobjid, 0) AS shadow FROM pg_depend
          WHERE classid = 'pg_proc'::regclass AND objid = $1::regproc AND refclassid <> 'pg_namespace'::regclass
            AND (pg_identify_object(refclassid, refobjid, 0)).schema = $2`,
        [name, this.schema],
      )
      return rows.map(({ shadow }) => shadow)
    })
  }

  /** How PostgreSQL itself prints a statement that it has parsed, with parentheses around every operator. */
  async meaningOf(client: pg.ClientBase, statement: string): Promise<string> {
    return this.#parsed(client, statement, async (name) => {
      const sql = 'SELECT pg_get_function_sqlbody($1::regproc) AS body'
      return (await this.#database.rows<{ body: string }>(sql, [name]))[0]?.body ?? ''
    })
  }

  /**
   * Has the statement parsed on a connection as the body of a function. A function in standard SQL is parsed when it is
   * created, and PostgreSQL notes everything that it depends on.
   */
  async #parsed<T>(
    client: pg.ClientBase,
    statement: string,
    look: (functionName: string) => Promise<T>,
  ): Promise<T> {
    const name = `${this.schema}.statement_under_test`
    try {
      await client.query(`PREPARE under_test AS ${statement}`)
      const { rows } = await client.query<{ parameter_types: string }>(
        `SELECT parameter_types FROM pg_catalog.pg_prepared_statements WHERE name OPERATOR(pg_catalog.=) 'under_test'`,
      )
      const types = (rows[0]?.parameter_types ?? '').replaceAll(/[{}"]/g, '')
      await client.query(
        `CREATE FUNCTION ${name}(${types}) RETURNS void LANGUAGE sql BEGIN ATOMIC ${statement}; END`,
      )
      return await look(name)
    } finally {
      await client.query('DEALLOCATE ALL')
      await client.query(`DROP FUNCTION IF EXISTS ${name}`)
    }
  }
}

/** Leaves out what cannot be created, such as a function with a pseudo-type that the language does not accept. */
const PLANTING = `
DO $do$
DECLARE
  thing record;
  words text[] := ARRAY(SELECT jsonb_array_elements_text($words::jsonb));
  raising text := $$LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''a shadow was called''; END'$$;
  body text;
BEGIN
  EXECUTE 'CREATE FUNCTION $schema.fail() RETURNS boolean ' || raising;
  FOR thing IN
    SELECT 'of_operator_' || encode(o.oprname::text::bytea, 'hex') AS function, o.oprname, NULLIF(o.oprleft, 0)::regtype AS "left", o.oprright::regtype AS "right",
           o.oprresult::regtype AS result, p.prosrc
      FROM pg_operator AS o JOIN pg_proc AS p ON p.oid = o.oprcode JOIN pg_language AS l ON l.oid = p.prolang
     WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND (l.lanname = 'internal' OR $raises)
    UNION ALL
    SELECT 'of_operator_' || encode(name::bytea, 'hex'), name, l::regtype, r::regtype, CASE WHEN is_comparison THEN 'boolean' ELSE l END::regtype, NULL
      FROM (SELECT jsonb_array_elements_text($comparisons::jsonb) AS name, true AS is_comparison
            UNION ALL SELECT jsonb_array_elements_text($calculations::jsonb), false) AS names,
           jsonb_array_elements_text($types::jsonb) AS l, jsonb_array_elements_text($types::jsonb) AS r
     WHERE NOT EXISTS (SELECT FROM pg_operator AS o WHERE o.oprnamespace = 'pg_catalog'::regnamespace
                          AND o.oprname = name AND o.oprleft = l::regtype AND o.oprright = r::regtype)
  LOOP
    body := CASE WHEN $raises OR thing.prosrc IS NULL THEN raising
                 ELSE format('LANGUAGE internal AS %L', thing.prosrc) END;
    BEGIN
      EXECUTE format('CREATE FUNCTION $schema.%I(%s) RETURNS %s ', thing.function, concat_ws(', ', thing."left", thing."right"), thing.result) || body;
      EXECUTE format('CREATE OPERATOR $schema.%s (FUNCTION = $schema.%I, %s RIGHTARG = %s)', thing.oprname,
                     thing.function, 'LEFTARG = ' || thing."left" || ',', thing."right");
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
  END LOOP;

  FOR thing IN
    SELECT p.*, pg_get_function_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result
      FROM pg_proc AS p JOIN pg_language AS l ON l.oid = p.prolang
     WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = ANY (words) AND p.prokind IN ('f', 'w')
       AND (l.lanname = 'internal' OR $raises)
  LOOP
    body := CASE WHEN $raises THEN raising
                 ELSE format('LANGUAGE internal %s AS %L', CASE thing.prokind WHEN 'w' THEN 'WINDOW' ELSE '' END, thing.prosrc) END;
    BEGIN
      EXECUTE format('CREATE FUNCTION $schema.%I(%s) RETURNS %s ', thing.proname, thing.arguments, thing.result) || body;
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
  END LOOP;

  FOR thing IN
    SELECT p.proname, pg_get_function_identity_arguments(p.oid) AS arguments, a.*
      FROM pg_aggregate AS a JOIN pg_proc AS p ON p.oid = a.aggfnoid
     WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = ANY (words) AND a.aggkind = 'n'
  LOOP
    BEGIN
      EXECUTE format('CREATE AGGREGATE $schema.%I(%s) (SFUNC = pg_catalog.%s, STYPE = %s%s%s)', thing.proname,
                     coalesce(NULLIF(thing.arguments, ''), '*'), thing.aggtransfn, thing.aggtranstype::regtype,
                     CASE WHEN thing.aggfinalfn <> 0 THEN ', FINALFUNC = pg_catalog.' || thing.aggfinalfn ELSE '' END
                       || CASE WHEN thing.aggfinalextra THEN ', FINALFUNC_EXTRA' ELSE '' END,
                     ', INITCOND = ' || quote_literal(thing.agginitval));
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
  END LOOP;

  FOR thing IN
    SELECT typname FROM pg_type
     WHERE typnamespace = 'pg_catalog'::regnamespace AND typname = ANY (words) AND typtype = 'b' AND typelem = 0
  LOOP
    EXECUTE format('CREATE DOMAIN $schema.%I AS pg_catalog.%I', thing.typname, thing.typname)
            || CASE WHEN $raises THEN ' CHECK ($schema.fail())' ELSE '' END;
  END LOOP;

  FOR thing IN
    SELECT relname FROM pg_class
     WHERE relnamespace = 'pg_catalog'::regnamespace AND relname = ANY (words) AND relkind IN ('r', 'v')
  LOOP
    BEGIN
      EXECUTE format('CREATE VIEW $schema.%I AS SELECT * FROM pg_catalog.%I', thing.relname, thing.relname)
              || CASE WHEN $raises THEN ' WHERE $schema.fail()' ELSE '' END;
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
  END LOOP;
END
$do$`
