/** What the application takes out of texts, in addition to what Pawl does. */
export type Redact = (text: string) => string

/** Nothing is kept of a text that the application could not redact: what it hides would be in it. */
const NOT_REDACTED = 'an error that the option redact could not redact'

/** Never throws. `whenFailed` is told why the text could not be redacted. */
export function redactMore(
  text: string,
  more: Redact | null,
  whenFailed: (message: string, error: unknown) => void = () => {},
): string {
  if (more === null) return text
  try {
    const redacted: unknown = more(text)
    if (typeof redacted === 'string') return redacted
    whenFailed('the option redact returned no text', null)
  } catch (error) {
    whenFailed('the option redact threw', error)
  }
  return NOT_REDACTED
}
