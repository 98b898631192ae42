import { PawlError, safeError } from '@pawl/core'
import { CliError, type CliErrorCode } from './cli-error.js'
import { schemaOption } from './schema-option.js'

/** What to report about an error: a code for scripts, a message for people, no stack. */
export interface DescribedError {
  readonly code: CliErrorCode
  readonly message: string
}

/** SQLSTATE classes for faults of the server, or of the way to it: connection, resources, operator's shutdown. */
const UNAVAILABLE_SQLSTATE = /^(?:08|28|53|57P|3D000)/
const UNDEFINED_SCHEMA_OR_TABLE = new Set(['3F000', '42P01', '42703'])
/** What core reports about an argument that it does not accept: it checked before it asked the database. */
const REFUSED_ARGUMENT = new Set([
  'PAWL_INVALID_OPTION',
  'PAWL_INVALID_REQUEST',
  'PAWL_INVALID_RESPONSE',
  'PAWL_NOT_JSON',
  'PAWL_TOO_LARGE',
])
const SYSTEM_ERROR = /^E[A-Z_]+$/

export function describeError(error: unknown, schema: string): DescribedError {
  if (error instanceof CliError) return { code: error.code, message: error.message }
  const code = codeOf(error)
  if (code === 'PAWL_NOT_MIGRATED' || UNDEFINED_SCHEMA_OR_TABLE.has(code)) return notMigrated(schema)
  if (isUnavailable(error, code)) {
    return { code: 'database_unavailable', message: `The database cannot be reached: ${reasonOf(error)}` }
  }
  if (REFUSED_ARGUMENT.has(code)) return { code: 'usage', message: messageOf(error) }
  return { code: 'failed', message: messageOf(error) }
}

function notMigrated(schema: string): DescribedError {
  return {
    code: 'not_migrated',
    message: `Schema '${schema}' does not have the tables that this version of Pawl works with. Run: pawl migrate${schemaOption(schema)}`,
  }
}

function isUnavailable(error: unknown, code: string): boolean {
  if (code === 'PAWL_NO_CONNECTION' || code === 'PAWL_CONNECTION_LOST') return true
  if (error instanceof PawlError || error instanceof CliError) return false
  if (UNAVAILABLE_SQLSTATE.test(code) || SYSTEM_ERROR.test(code)) return true
  return /timeout exceeded when trying to connect|Connection terminated|server does not support SSL|SASL/i.test(
    messageOf(error),
  )
}

/** The innermost reason: 'Could not connect to PostgreSQL.' alone does not say why. */
function reasonOf(error: unknown): string {
  const { cause } = error as { readonly cause?: unknown }
  return cause instanceof Error ? reasonOf(cause) : messageOf(error)
}

function messageOf(error: unknown): string {
  // Several addresses were tried and none answered; the error itself then has no message.
  if (error instanceof AggregateError && error.message === '') {
    return [...new Set(error.errors.map(messageOf))].join('; ')
  }
  // Our own errors repeat what the operator gave, and nothing else. Others may contain anything, such as a provider's
  // key.
  if (error instanceof PawlError) return error.message
  const { message, name } = safeError(error)
  return message === '' ? name : message
}

function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { readonly code?: unknown }
  return typeof code === 'string' ? code : ''
}
