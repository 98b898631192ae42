/** What the provider's process does for the bench. */
export type ProviderCommands = {
  /** Returns its address. */
  listen: { asks: null; gives: string }
  refuse: { asks: boolean; gives: void }
  /** How many charges there are. */
  count: { asks: null; gives: number }
  forget: { asks: null; gives: void }
}
