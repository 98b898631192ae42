/** What the bench asks of one of its processes. */
export interface Request {
  readonly id: number
  readonly name: string
  readonly argument: unknown
}

/** The command that every process knows: to do nothing at all until a byte comes over its standard input. */
export const FREEZE = 'freeze'

/** What it answers. */
export type Reply =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: string }
