/** Thrown when the fake provider answers with 400 or above. */
export class ProviderError extends Error {
  override readonly name = 'ProviderError'
  /** Such as 402, or 429. */
  readonly status: number
  /** The answer's body: parsed if it is JSON, or else its text. */
  readonly body: unknown

  constructor(status: number, request: string, body: unknown) {
    const shown = typeof body === 'string' ? body : JSON.stringify(body)
    super(`The provider answered ${status} to ${request}: ${shown}`)
    this.status = status
    this.body = body
  }
}
