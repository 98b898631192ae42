import type { Pipeline, PipelineSettings } from '@pawl/core'
import { gate } from '../support/signals.js'
import { type Boundary, boundaryOf, type Fault, isPossible, nameOf, strikeAt } from './strike.js'
import type { Violation } from '../../packages/crash-kit/src/history.js'
import { WireRequest } from './wire-request.js'
import { LEASE_MS, type WireTrial } from './wire-trial.js'

/** One fault at one boundary. */
export interface SweepCase {
  readonly boundary: Boundary
  readonly fault: Fault
}

/** What a case did. */
export interface Swept<DB, Input> {
  readonly name: string
  readonly request: WireRequest<DB, Input>
  readonly struck: boolean
  readonly violations: readonly Violation[]
}

export interface SweepOptions<DB, Input> {
  readonly trial: WireTrial
  readonly pipeline: Pipeline<DB, Input>
  readonly inputOf: (scope: string) => Input
  readonly defaults: PipelineSettings
  readonly pipelining?: boolean
  readonly preparedStatements?: boolean
}

/** Time-outs are short here, and a machine may be busy. */
const CLEAN_TRIES = 10

/** How long others ask for a key whose holder's message is held. If no lock is in the way, its lease has ended by then. */
const HELD_FOR_MS = 2.5 * LEASE_MS

/** How long a client asks before it gives up and the completer does the rest: several leases. */
const CLIENT_ASKS_MS = 10 * LEASE_MS

/** Every boundary that a request passes on a new connection, as a clean run shows them. */
export async function boundariesOf<DB, Input>(options: SweepOptions<DB, Input>): Promise<Boundary[]> {
  const { trial } = options
  for (let tries = 1; ; tries++) {
    const request = new WireRequest(trial, options.pipeline, options.inputOf)
    const proxy = await trial.proxy()
    const boundaries: Boundary[] = []
    proxy.decide = (message) => {
      // A second connection is for renewals, which only a slow run needs.
      if (message.connection === 1) boundaries.push(boundaryOf(message))
      return 'pass'
    }
    const one = trial.engine<DB>('clean', proxy, engineOptions(options))
    const outcome = await request.ask(one)
    // The end of the connection is not part of any request.
    proxy.decide = null
    await trial.leave(one)
    if (outcome.type === 'completed') return boundaries
    if (tries === CLEAN_TRIES)
      throw new Error(`a run without faults was ${JSON.stringify(outcome)}, ${CLEAN_TRIES} times`)
  }
}

export function casesOf(boundaries: readonly Boundary[], faults: readonly Fault[]): SweepCase[] {
  return boundaries.flatMap((boundary) =>
    faults.filter((fault) => isPossible(fault, boundary)).map((fault) => ({ boundary, fault })),
  )
}

/** How often a case is run again if its request did not pass the boundary. */
const STRIKE_TRIES = 12

/**
 * Runs a case until its fault has struck. On a busy machine a request may take another path, such as a second try after a
 * time-out. What the earlier runs did counts as well.
 */
export async function runUntilStruck<DB, Input>(
  options: SweepOptions<DB, Input>,
  each: SweepCase,
): Promise<Swept<DB, Input>[]> {
  const runs: Swept<DB, Input>[] = []
  while (runs.length < STRIKE_TRIES && runs.at(-1)?.struck !== true) runs.push(await runCase(options, each))
  return runs
}

/** Runs a request into one fault, and then sends it again, by the same engine and by another one, until it has ended. */
export async function runCase<DB, Input>(
  options: SweepOptions<DB, Input>,
  { boundary, fault }: SweepCase,
): Promise<Swept<DB, Input>> {
  const { trial } = options
  const request = new WireRequest(trial, options.pipeline, options.inputOf)
  const proxy = await trial.proxy()
  const struck = gate()
  const letGo = gate()
  let hasStruck = false
  proxy.decide = strikeAt(
    boundary,
    fault,
    () => {
      hasStruck = true
      struck.open()
    },
    letGo.opened,
  )
  const one = trial.engine<DB>('one', proxy, engineOptions(options))
  const other = trial.engine<DB>('other', null, engineOptions(options))
  const first = fault === 'held' ? request.ask(one) : request.askAlone(one)
  if (fault === 'held') {
    // We wait for whichever comes first: the message that is held, or an end without it.
    await Promise.race([struck.opened, first])
    await request.askUntilOver(other, HELD_FOR_MS)
    letGo.open()
  }
  await first
  await request.askUntilOver(one, CLIENT_ASKS_MS)
  await request.askUntilOver(other, CLIENT_ASKS_MS)
  const violations = [...(await trial.leave(one)), ...(await trial.leave(other))]
  return { name: `${fault} at ${nameOf(boundary)}`, request, struck: hasStruck, violations }
}

function engineOptions<DB, Input>({
  pipeline,
  defaults,
  pipelining,
  preparedStatements,
}: SweepOptions<DB, Input>) {
  return {
    pipelines: [pipeline],
    defaults,
    // What an engine asks about its cache travels whenever it does, so that no message would have a number of its own.
    cached: false,
    ...(pipelining === undefined ? {} : { pipelining }),
    ...(preparedStatements === undefined ? {} : { preparedStatements }),
  }
}

/** Runs tasks a few at a time, in their order. */
export async function several<T, R>(
  items: readonly T[],
  atOnce: number,
  run: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = []
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < items.length) {
      const at = next++
      results[at] = await run(items[at] as T)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  return results
}
