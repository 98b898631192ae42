import { usageError } from '../cli-error.js'

const DAY = /^\d{4}-\d{2}-\d{2}$/
const INSTANT = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:\d{2})$/

/** A day, which begins at midnight UTC, or a moment with its zone: never one that depends on where this runs. */
export function parseMoment(text: string): Date {
  const moment = new Date(text)
  const isValid = (DAY.test(text) || INSTANT.test(text)) && !Number.isNaN(moment.getTime())
  // The parser takes 31 February for 3 March.
  if (isValid && (!DAY.test(text) || moment.toISOString().startsWith(text))) return moment
  throw usageError(`'${text}' is not a moment; it has to be like 2026-03-31 (UTC) or 2026-03-31T12:00:00Z.`)
}
