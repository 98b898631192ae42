import { readFile } from 'node:fs/promises'
import type { Client } from 'pg'

/** CPU time of each of the server's processes so far, in milliseconds. Null where it runs on another machine. */
export type ServerCpu = ReadonlyMap<number, number> | null

const NANOSECONDS_PER_MS = 1_000_000

/** Asks Linux about every process that the server lists: sessions, checkpointer, writers. */
export async function readServerCpu(observer: Client): Promise<ServerCpu> {
  const { rows } = await observer.query<{ pid: number; own: boolean }>(
    `SELECT a.pid, a.pid = pg_backend_pid() AS own FROM pg_stat_activity AS a`,
  )
  const times = new Map<number, number>()
  for (const { pid, own } of rows) {
    const cpuMs = await cpuOf(pid)
    if (cpuMs !== null) times.set(pid, cpuMs)
    // A process of that number need not be the server's, but its own session has to be there.
    else if (own) return null
  }
  return times
}

/** What was used in between. A session that began in between counts from its start; one that ended is not counted. */
export function cpuSince(before: ServerCpu, after: ServerCpu): number | null {
  if (before === null || after === null) return null
  let sum = 0
  for (const [pid, cpuMs] of after) sum += cpuMs - (before.get(pid) ?? 0)
  return sum
}

/** To the nanosecond, where `stat` counts hundredths of a second. */
async function cpuOf(pid: number): Promise<number | null> {
  try {
    const [comm, schedule] = await Promise.all([
      readFile(`/proc/${pid}/comm`, 'utf8'),
      readFile(`/proc/${pid}/schedstat`, 'utf8'),
    ])
    if (!comm.startsWith('postgres')) return null
    return Number(schedule.split(' ')[0]) / NANOSECONDS_PER_MS
  } catch {
    return null
  }
}
