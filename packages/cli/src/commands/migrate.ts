import { migrationSql } from '@pawl/core'
import { migrateAndWarn } from '@pawl/core/internal'
import { defineCommand, flag, value } from '../command.js'
import { EXIT } from '../exit-code.js'
import { parseOneOf, parseWholeNumber } from '../parse/value.js'
import { counted } from '../render/counted.js'

export const migrateCommand = defineCommand({
  name: 'migrate',
  summary: 'create or update Pawl’s tables',
  args: [],
  options: {
    layout: value(
      'LAYOUT',
      parseOneOf(['plain', 'partitioned', 'citus']),
      'plain, partitioned or citus; default: as the tables are, plain if they are new',
    ),
    partitions: value('COUNT', parseWholeNumber(2, 256), 'into how many partitions; default: 16'),
    shards: value('COUNT', parseWholeNumber(1, 1024), 'for citus: into how many shards; default: 32'),
    print: flag('print the SQL instead; needs no database'),
  },
  details: ['It can be repeated, and run by many processes at once: they take turns.'],
  exits: {},
  async run({ options }, { schema, withDatabase }) {
    const { layout, partitions, shards } = options
    const where = {
      schema,
      ...(layout !== undefined && { layout }),
      ...(partitions !== undefined && { partitions }),
      ...(shards !== undefined && { shards }),
    }
    if (options.print) {
      const sql = migrationSql(where)
      return { exit: EXIT.ok, lines: sql.trimEnd().split('\n'), json: { schema, sql } }
    }
    const { applied, warnings } = await withDatabase(({ pool }) => migrateAndWarn(pool, where))
    const line =
      applied === 0
        ? `Schema ${schema} is up to date.`
        : `Applied ${counted(applied, 'migration')} to schema ${schema}.`
    return {
      exit: EXIT.ok,
      lines: [line, ...warnings.map((text) => `Warning: ${text}`)],
      json: { schema, applied, warnings },
    }
  },
})
