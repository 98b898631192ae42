import type { ErrorAnswer } from './api.js'
import type { ConsoleError } from './console-error.js'

/** What the browser gets of an error. */
export function tellFailure({ code, message, detail }: ConsoleError): ErrorAnswer {
  if (detail === null) return { error: { code, message } }
  const { by, key } = detail
  return { error: { code, message, by, ...(key !== null && { key }) } }
}
