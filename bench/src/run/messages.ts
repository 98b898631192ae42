/** A message from the bench to one of its processes. */
export interface Request {
  readonly id: number
  readonly name: string
  readonly argument: unknown
}

/** The command that every process knows: do nothing at all until a byte arrives on standard input. */
export const FREEZE = 'freeze'

/** What it answers. */
export type Reply =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: string }
