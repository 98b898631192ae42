import type { ContenderOptions } from '../contender.js'
import type { EachPlan, LoadPlan, LoadResult } from './load.js'

/** What the process of a contender, or one that only sends requests, does for the bench. */
export type WorkerCommands = {
  /** Creates the contender's tables. Returns its title. */
  prepare: { asks: { readonly databaseUrl: string }; gives: string }
  /** Opens the contender. */
  open: { asks: ContenderOptions; gives: OpenedHandle }
  /** For a process that only sends requests: to this address. */
  connect: { asks: { readonly url: string; readonly createdStatus: number }; gives: OpenedHandle }
  load: { asks: { readonly handle: number; readonly plan: LoadPlan }; gives: LoadResult }
  /** Sends every key once. */
  each: { asks: { readonly handle: number; readonly plan: EachPlan }; gives: void }
  /** Sends requests without waiting for them; `awaitBegun` returns their statuses. */
  begin: { asks: { readonly handle: number; readonly keys: readonly string[] }; gives: void }
  awaitBegun: { asks: null; gives: readonly number[] }
  control: {
    asks: { readonly handle: number; readonly name: string; readonly argument: unknown }
    gives: unknown
  }
  close: { asks: { readonly handle: number }; gives: void }
  /** CPU time of this process so far, in milliseconds. */
  cpu: { asks: null; gives: number }
}

export interface OpenedHandle {
  readonly handle: number
  /** Where it listens, if its requests come over HTTP. */
  readonly url: string | null
  /** What it answers there to a ride that was created. */
  readonly createdStatus: number
}
