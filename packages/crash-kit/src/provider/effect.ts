/** Something that really happened at the provider. */
export interface Effect {
  /** The `id` in the answer's body, which is what the client got; the request's own id if the body has none. */
  readonly id: string
  /** The key that it was recorded under; null when none was sent. */
  readonly idempotencyKey: string | null
  readonly method: string
  /** Without the query. */
  readonly path: string
  /** The request's body, as it came. */
  readonly body: string
  /** The answer's body, as `answer` returned it. */
  readonly answer: unknown
  /** When it happened, in the kit's ticks; without a kit, in the order of arrival. */
  readonly tick: number
  readonly at: Date
}
