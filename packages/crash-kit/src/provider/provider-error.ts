/** The fake provider answered with 400 or above. */
export class ProviderError extends Error {
  override readonly name = 'ProviderError'
  /** Such as 402, or 429. */
  readonly status: number
  /** The answer's body: its JSON, or its text where it is none. */
  readonly body: unknown

  constructor(status: number, request: string, body: unknown) {
    const told = typeof body === 'string' ? body : JSON.stringify(body)
    super(`The provider answered ${status} to ${request}: ${told}`)
    this.status = status
    this.body = body
  }
}
