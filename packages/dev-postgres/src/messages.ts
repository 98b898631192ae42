/** What the starting process asks of its supervisor. */
export type Command =
  | {
      readonly name: 'start'
      readonly settings: Readonly<Record<string, string>>
      readonly port: number | null
    }
  | { readonly name: 'stop' | 'kill' | 'restart' }

export type Request = { readonly id: number; readonly command: Command }

/** Where the server is after a command; `pid` is null while it is down. */
export type ServerStatus = {
  readonly url: string
  readonly port: number
  readonly pid: number | null
  readonly directory: string
}

export type Reply =
  | { readonly id: number; readonly status: ServerStatus }
  | { readonly id: number; readonly error: string }
