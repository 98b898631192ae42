import type { ErrorAnswer } from './api.js'
import type { ConsoleError } from './console-error.js'

/** What the browser gets of an error. */
export function tellFailure({ code, message, detail }: ConsoleError): ErrorAnswer {
  return { error: { code, message, ...detail } }
}
