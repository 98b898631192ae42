import { TOLERATED_ERROR_SHARE } from '../limits.js'
import type { Arena } from '../run/arena.js'
import type { Entrant } from '../run/entrant.js'
import type { LoadPlan } from '../run/load.js'
import { readCounters } from './counters.js'
import { cpuSince, readServerCpu } from './server-cpu.js'
import { percentile } from './statistics.js'

/** One contender in one round. */
export interface Sample {
  readonly requestsPerSecond: number
  readonly latenciesMs: Float64Array
  readonly p50Ms: number
  readonly p99Ms: number
  readonly errors: number
  readonly firstError: string | null
  readonly total: number
  readonly cpuMs: number
  /** Null where the server is on another machine. */
  readonly serverCpuMs: number | null
  readonly walBytes: number
  readonly commits: number
}

/** Sends requests to one contender while all others idle. What is counted per request is counted over all of them. */
export async function takeSample(arena: Arena, entrant: Entrant, plan: LoadPlan): Promise<Sample> {
  const { observer } = arena.database
  await arena.leaveTo(entrant)
  const before = await readCounters(observer)
  const cpuBefore = await entrant.cpu()
  const serverBefore = await readServerCpu(observer)
  const { latenciesMs, seconds, total, errors, firstError } = await entrant.load(plan)
  const cpuAfter = await entrant.cpu()
  const serverCpuMs = cpuSince(serverBefore, await readServerCpu(observer))
  const after = await readCounters(observer)
  if (errors > total * TOLERATED_ERROR_SHARE || total === 0) {
    throw new Error(
      `${entrant.label} failed ${errors} of ${errors + total} requests. The first ${firstError}`,
    )
  }
  return {
    requestsPerSecond: latenciesMs.length / seconds,
    latenciesMs,
    p50Ms: percentile(latenciesMs, 0.5),
    p99Ms: percentile(latenciesMs, 0.99),
    errors,
    firstError,
    total,
    cpuMs: (cpuAfter - cpuBefore) / total,
    serverCpuMs: serverCpuMs === null ? null : serverCpuMs / total,
    walBytes: (after.walBytes - before.walBytes) / total,
    commits: (after.transactions - before.transactions) / total,
  }
}
