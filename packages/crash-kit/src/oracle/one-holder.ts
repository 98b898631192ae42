import type { History, Violation } from '../history.js'
import { type Grant, grantsOf } from './grants.js'
import { keyWrites } from './key-writes.js'

/** I1: a key has one row, and nobody gets it while somebody else may run it. */
export function oneHolder(history: History): Violation[] {
  return [...oneRowEach(history), ...takenFromNobody(history)]
}

function oneRowEach(history: History): Violation[] {
  const violations: Violation[] = []
  const there = new Map<string, string>()
  for (const { op, before, after, actor } of keyWrites(history)) {
    if (op === 'DELETE') there.delete(before.name)
    if (op !== 'INSERT') continue
    if (there.has(after.name)) {
      violations.push({
        rule: 'I1',
        title: 'a key has one row',
        detail: `${actor} reserved a key that already existed: row ${after.id} beside row ${there.get(after.name)}.`,
      })
    }
    there.set(after.name, after.id)
  }
  return violations
}

function takenFromNobody(history: History): Violation[] {
  return grantsOf(history).flatMap((grant) => {
    const complaint = grant.how === 'taken_over' ? complaintOf(grant) : null
    return complaint === null
      ? []
      : [{ rule: 'I1', title: 'a key is granted only when nobody holds it', detail: complaint }]
  })
}

function complaintOf({ write, actor, from }: Extract<Grant, { how: 'taken_over' }>): string | null {
  const { before, after, atMs } = write
  const fences = `fence ${before.fence} → ${after.fence}`
  const taken = `${actor} took the key at '${before.recoveryPoint}' (${fences}) from ${from ?? 'nobody known'}`
  if (before.status !== 'running') return `${taken}, although it was ${before.status}.`
  if (before.leaseUntilMs === null || before.leaseUntilMs <= atMs) return null
  // It was written in the future, by a server whose clock was ahead. So was the lease.
  if (before.updatedMs > atMs) return null
  return `${taken}, whose lease had ${before.leaseUntilMs - Math.floor(atMs)} ms left on the database's clock.`
}
