import { median } from '../measure/statistics.js'
import type { Compared, Line, Section } from './section.js'

/** A bound that Pawl is held to, and what was measured. */
export interface Target {
  readonly name: string
  /** Null: not measured in this run. */
  readonly ratio: number | null
  readonly bound: number
  readonly kind: 'at least' | 'at most'
  /** Null: not measured in this run. */
  readonly met: boolean | null
}

interface Rule {
  readonly name: string
  readonly bound: number
  readonly kind: Target['kind']
  /** Null where a contender that it needs did not run. */
  readonly ratio: (find: Find) => number | null
}

type Find = (section: string, contender: string) => Line | null

/** The median over the rounds of how one line compares with another of the same section. */
const ofRounds =
  (section: string, contender: string, against: string, compared: Compared) =>
  (find: Find): number | null => {
    const line = find(section, contender)
    const base = find(section, against)
    if (line === null || base === null) return null
    const baseRounds = base.perRound[compared]
    return median(line.perRound[compared].map((value, round) => value / (baseRounds[round] ?? Number.NaN)))
  }

/** What Pawl takes beyond the same work without any idempotency. */
function ownCpu(find: Find): number | null {
  const pawl = find('fresh C=32', 'pawl')?.cpuMs ?? null
  const bare = find('fresh C=32', 'no-idempotency')?.cpuMs ?? null
  const handWritten = find('fresh C=32', 'hand-written')?.cpuMs ?? null
  return pawl === null || bare === null || handWritten === null ? null : (pawl - bare) / handWritten
}

const RULES: readonly Rule[] = [
  {
    name: 'fresh, C=1, requests/s against hand-written',
    bound: 1,
    kind: 'at least',
    ratio: ofRounds('fresh C=1', 'pawl', 'hand-written', 'requestsPerSecond'),
  },
  {
    name: 'fresh, C=32, requests/s against hand-written',
    bound: 1,
    kind: 'at least',
    ratio: ofRounds('fresh C=32', 'pawl', 'hand-written', 'requestsPerSecond'),
  },
  {
    name: 'fresh, C=32, requests/s against DBOS',
    bound: 5,
    kind: 'at least',
    ratio: ofRounds('fresh C=32', 'pawl', 'dbos', 'requestsPerSecond'),
  },
  {
    name: 'slow provider, requests/s against the original',
    bound: 12,
    kind: 'at least',
    ratio: ofRounds('slow provider', 'pawl', 'original', 'requestsPerSecond'),
  },
  {
    name: '1 ms away, C=1, p50 against hand-written',
    bound: 0.7,
    kind: 'at most',
    ratio: ofRounds('1 ms away', 'pawl', 'hand-written', 'p50Ms'),
  },
  {
    name: 'replay through Fastify, requests/s against a route with one SELECT',
    bound: 0.85,
    kind: 'at least',
    ratio: ofRounds('replay over HTTP', 'pawl-fastify', 'select-route', 'requestsPerSecond'),
  },
  {
    name: '2 million keys, fresh, C=32, requests/s against an empty table',
    bound: 0.9,
    kind: 'at least',
    ratio: ofRounds('growth', '2 million keys', 'empty table', 'requestsPerSecond'),
  },
  {
    name: 'p99 with the reaper deleting, against without',
    bound: 1.5,
    kind: 'at most',
    ratio: ofRounds('reaper', 'with the reaper', 'without the reaper', 'p99Ms'),
  },
  {
    name: "framework's own CPU per request, against hand-written's total",
    bound: 1.3,
    kind: 'at most',
    ratio: ownCpu,
  },
]

/** Every target, also those that this run says nothing about. */
export function judgeTargets(sections: readonly Section[]): Target[] {
  const find: Find = (name, contender) =>
    sections.find((section) => section.name === name)?.lines.find((line) => line.contender === contender) ??
    null
  return RULES.map(({ name, bound, kind, ratio: measure }) => {
    const measured = measure(find)
    const ratio = measured === null || Number.isNaN(measured) ? null : measured
    return { name, ratio, bound, kind, met: ratio === null ? null : isMet(ratio, bound, kind) }
  })
}

function isMet(ratio: number, bound: number, kind: Target['kind']): boolean {
  switch (kind) {
    case 'at least':
      return ratio >= bound
    case 'at most':
      return ratio <= bound
  }
}
