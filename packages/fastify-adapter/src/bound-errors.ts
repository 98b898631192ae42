import {
  isLargerThan,
  MAX_INPUT_ISSUES,
  MAX_ISSUE_LENGTH,
  MAX_ISSUE_PATH_LENGTH,
  shorten,
} from '@pawl/core/internal'
import type { FastifyInstance, RouteOptions } from 'fastify'

type Formatter = NonNullable<RouteOptions['schemaErrorFormatter']>
type ValidationError = Parameters<Formatter>[0][number]

/**
 * Formats what Fastify's validation of a route found, after dropping what is too much: with `allErrors`, a small body can
 * be wrong in a million places, and all of them would be sent and logged.
 */
export function boundErrors(app: FastifyInstance, given: Formatter | undefined): Formatter {
  return (errors, dataVar) => {
    // In place, because Fastify passes the same list to the error handler. The application's own validator may return
    // anything.
    if (Array.isArray(errors))
      errors.splice(0, errors.length, ...errors.slice(0, MAX_INPUT_ISSUES).map(bound))
    return (given ?? formatterOf(app) ?? listErrors)(errors, dataVar)
  }
}

function bound(error: ValidationError): ValidationError {
  const bounded: Record<string, unknown> = {}
  for (const [member, value] of Object.entries(error)) {
    if (typeof value === 'string')
      bounded[member] = shorten(value, member === 'message' ? MAX_ISSUE_LENGTH : MAX_ISSUE_PATH_LENGTH)
    else if (!isLargerThan(value, MAX_ISSUE_LENGTH)) bounded[member] = value
  }
  return bounded as unknown as ValidationError
}

/** What `setSchemaErrorFormatter` left on the instance: there is no other way to ask for it. */
function formatterOf(app: FastifyInstance): Formatter | null {
  for (let at: object | null = app; at !== null; at = Object.getPrototypeOf(at) as object | null) {
    const symbol = Object.getOwnPropertySymbols(at).find(
      ({ description }) => description === 'fastify.schemaErrorFormatter',
    )
    if (symbol !== undefined) return (at as Record<symbol, Formatter | null>)[symbol] ?? null
  }
  return null
}

/** What Fastify does where the application does not say how. */
const listErrors: Formatter = (errors, dataVar) =>
  new Error(errors.map(({ instancePath, message }) => `${dataVar}${instancePath} ${message}`).join(', '))
