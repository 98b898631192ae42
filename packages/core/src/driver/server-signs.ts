/** What the engine's sessions have heard of the server, all together. */
export interface ServerSigns {
  /** How many messages the server has answered. */
  readonly answers: number
  /** Called with everything that comes back: an answer, or an error, which may be the server's or not. */
  heard(error: unknown): void
}
