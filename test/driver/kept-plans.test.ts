import { randomUUID } from 'node:crypto'
import { respond } from '@pawl/core'
import { type Kysely, sql } from 'kysely'
import { expect, test } from 'vitest'
import { createEngine, type Database, pipeline } from '../support/rides.js'
import { TestDatabase } from '../support/test-database.js'

const plain = () => TestDatabase.createPlain()
const partitioned = () => TestDatabase.createPartitioned(2)

test.each([
  { on: 'partitions', create: partitioned, preparedStatements: true, mode: 'force_generic_plan' },
  { on: 'partitions', create: partitioned, preparedStatements: false, mode: 'auto' },
  { on: 'plain tables', create: plain, preparedStatements: true, mode: 'auto' },
])(
  'on $on, with preparedStatements: $preparedStatements, plan_cache_mode is $mode for our own statements, and auto for those of phases',
  async ({ create, preparedStatements, mode }) => {
    const database = await create()
    // Records the setting as each write of a key finds it.
    await database.rows('CREATE TABLE pawl.planned (how text, point text, seq serial)')
    await database.rows(
      `CREATE FUNCTION pawl.write_down() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         INSERT INTO pawl.planned (how, point) VALUES (current_setting('plan_cache_mode'), NEW.recovery_point);
         RETURN NULL;
       END $$`,
    )
    await database.rows(
      `CREATE TRIGGER planned AFTER INSERT OR UPDATE ON pawl.idempotency_keys
         FOR EACH ROW EXECUTE FUNCTION pawl.write_down()`,
    )
    const ofPhases: unknown[] = []
    const look = async ({ tx }: { tx: Kysely<Database> }) => {
      const { rows } = await sql`SELECT current_setting('plan_cache_mode') AS how`.execute(tx)
      ofPhases.push(...rows)
    }
    const looking = pipeline<null>({ name: 'looking', version: 1 })
      .local('looked', look)
      .local('looked_again', look)
      .finish(() => respond(200))
    const { schema } = database
    // With one connection, a setting that stayed with it would be seen by the next phase.
    const engine = createEngine({
      pool: database.pool({ max: 1 }),
      pipelines: [looking],
      schema,
      preparedStatements,
    })
    const request = { scope: 's', key: randomUUID(), input: null }
    expect((await engine.execute(looking, request)).type).toBe('completed')
    await engine.close()
    const planned = await database.rows<{ how: string; point: string }>(
      'SELECT point, how FROM pawl.planned ORDER BY seq',
    )
    expect(planned.map(({ point, how }) => `${point} ${how}`)).toEqual(
      ['started', 'looked', 'looked_again', 'finished'].map((point) => `${point} ${mode}`),
    )
    expect(ofPhases).toEqual([{ how: 'auto' }, { how: 'auto' }])
    await database.drop()
  },
)
