/**
 * A place in the protocol where a test can stop: before or after one statement, or around `call`. For statements that
 * travel together, there is a place before each, while nothing has been sent, and one after the last.
 */
export interface Position {
  /** The phase being run; `reserve` before the first, `renewal` for the lease keeper's connection. */
  readonly phase: string
  /** The statement's name, `query` for one of the user's, or `call`, `reconcile`. */
  readonly step: string
  readonly when: 'before' | 'after'
}

/** Awaited at every position. The engine has none unless a test sets one. */
export type Probe = (position: Position) => void | Promise<void>
