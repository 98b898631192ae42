import { migrationSql } from '@pawl/core'
import { migrateAndWarn } from '@pawl/core/internal'
import { defineCommand, flag } from '../command.js'
import { EXIT } from '../exit-code.js'
import { counted } from '../render/counted.js'

export const migrateCommand = defineCommand({
  name: 'migrate',
  summary: 'create or update Pawl’s tables',
  args: [],
  options: { print: flag('print the SQL instead; needs no database') },
  details: ['It can be repeated, and run by many processes at once: they take turns.'],
  exits: {},
  async run({ options }, { schema, withDatabase }) {
    if (options.print) {
      const sql = migrationSql({ schema })
      return { exit: EXIT.ok, lines: sql.trimEnd().split('\n'), json: { schema, sql } }
    }
    const { applied, warnings } = await withDatabase(({ pool }) => migrateAndWarn(pool, { schema }))
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
