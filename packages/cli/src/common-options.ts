import { flag, type Given, value } from './command.js'
import { parseText } from './parse/value.js'

/** Options of every command. */
export const commonOptions = {
  'database-url': value('URL', parseText, 'the database; default: the environment’s DATABASE_URL'),
  schema: value('NAME', parseText, 'the schema of Pawl’s tables; default: pawl'),
  json: flag('print JSON, also for errors'),
  help: flag('print this'),
} as const

export type CommonOptions = Given<typeof commonOptions>
