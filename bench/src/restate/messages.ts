/** What the supervisor tells the process that forked it, once. */
export type Started =
  | {
      readonly pid: number
      /** Where requests are sent to. */
      readonly ingressUrl: string
      /** Where services are registered. */
      readonly adminUrl: string
    }
  | { readonly error: string }
