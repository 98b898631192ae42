/** Something that really happened at the provider. */
export interface Effect {
  /** The `id` of the answer's body, which is what the client was told; that of the request where it has none. */
  readonly id: string
  /** The key that it was recorded under; null where none was sent. */
  readonly idempotencyKey: string | null
  readonly method: string
  /** Without the query. */
  readonly path: string
  /** The request's, as it came. */
  readonly body: string
  /** The answer's body, as `answer` gave it. */
  readonly answer: unknown
  /** When, by the kit's count of moves; the order of arrival where no kit runs. */
  readonly tick: number
  readonly at: Date
}
