import { type CrashKitOptions, type FakeProvider, fakeProvider } from '@pawl/crash-kit'
import { afterAll, onTestFinished, TestRunner } from 'vitest'
import { discover, type Discovery } from '../../packages/crash-kit/src/explore/discover.js'
import { type OpenEnvironment, openEnvironment } from '../../packages/crash-kit/src/open-environment.js'
import { Children } from '../../packages/crash-kit/src/process/children.js'
import type { Database, RideInput } from '../support/rides.js'
import type { OddKind } from './fixtures/odd-rides.mjs'
import { prepareRides, rideAt, whereabouts } from './ride-kit.js'
import { BOUND, guarded } from '../support/guards.js'
import { LAYOUT } from '../support/layout.js'

export const RIDE_CHILD = new URL('./fixtures/ride-child.mjs', import.meta.url)

/** Returns the module of a child that runs an odd ride. */
export function oddChild(kind: OddKind): URL {
  return new URL(`./fixtures/odd-child.mjs?kind=${kind}`, import.meta.url)
}

/** The parts of a kit: what its cases share, and what a run without faults has shown. */
export interface OpenedKit {
  readonly environment: OpenEnvironment['environment']
  readonly discovery: Discovery
  readonly provider: FakeProvider
  /** Returns processes that run another module than the kit's own. */
  readonly childrenOf: (module: URL | string, timeoutMs?: number) => Children
}

/** Runs work at the end of the test or, outside a test, at the end of the file. */
function atEnd(work: () => Promise<void>): void {
  if (TestRunner.getCurrentTest() === undefined) afterAll(work)
  else onTestFinished(work)
}

/** Opens a kit until the end of the test, or of the file. */
export async function openKit(
  pipeline: (provider: FakeProvider) => ReturnType<typeof rideAt> = rideAt,
  more: Partial<CrashKitOptions<Database, RideInput>> = {},
): Promise<OpenedKit> {
  const provider = fakeProvider()
  const options: CrashKitOptions<Database, RideInput> = {
    pipeline: () => pipeline(provider),
    pool: whereabouts(),
    provider,
    prepare: prepareRides,
    ...LAYOUT,
    request: { scope: 'rider-1', input: { amount: 1_200 }, ...BOUND },
    ...more,
    engine: guarded(more.engine ?? {}),
  }
  const open = await openEnvironment(options as unknown as CrashKitOptions<never, never>)
  atEnd(() => open.close())
  const { environment } = open
  return {
    environment,
    discovery: await discover(environment, []),
    provider,
    childrenOf(module, timeoutMs) {
      const children = new Children({ module: String(module), execArgv: [] }, provider.url, timeoutMs)
      atEnd(() => children.close())
      return children
    },
  }
}
