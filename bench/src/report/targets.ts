import { median } from '../measure/statistics.js'
import type { Compared, Line, Section } from './section.js'

/** A bound that Pawl is held to, and what was measured. */
export interface Target {
  readonly name: string
  /** A ratio, or an amount of this unit. Null where this run did not measure it. */
  readonly ratio: number | null
  readonly unit: '×' | ' kB'
  readonly bound: number
  readonly kind: 'at least' | 'at most'
  /** Null where this run did not measure it. */
  readonly met: boolean | null
}

interface Rule {
  readonly name: string
  readonly bound: number
  /** Default: a ratio. */
  readonly unit?: Target['unit']
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
  const pawl = find('fresh C=32', 'pawl-fewest')?.cpuMs ?? null
  const bare = find('fresh C=32', 'no-idempotency')?.cpuMs ?? null
  const handWritten = find('fresh C=32', 'hand-written')?.cpuMs ?? null
  return pawl === null || bare === null || handWritten === null ? null : (pawl - bare) / handWritten
}

const logOf =
  (section: string, contender: string) =>
  (find: Find): number | null => {
    const { walBytes } = find(section, contender) ?? { walBytes: null }
    return walBytes === null ? null : walBytes / 1_000
  }

const RULES: readonly Rule[] = [
  {
    name: 'fresh, C=1, fewest commits, requests/s against hand-written',
    bound: 1.4,
    kind: 'at least',
    ratio: ofRounds('fresh C=1', 'pawl-fewest', 'hand-written', 'requestsPerSecond'),
  },
  {
    name: 'fresh, C=32, fewest commits, requests/s against hand-written',
    bound: 1.4,
    kind: 'at least',
    ratio: ofRounds('fresh C=32', 'pawl-fewest', 'hand-written', 'requestsPerSecond'),
  },
  {
    name: 'fresh, C=256, fewest commits, requests/s against hand-written',
    bound: 1.2,
    kind: 'at least',
    ratio: ofRounds('fresh C=256', 'pawl-fewest', 'hand-written', 'requestsPerSecond'),
  },
  {
    name: 'fresh, C=32, each phase a commit, requests/s against hand-written',
    bound: 1.15,
    kind: 'at least',
    ratio: ofRounds('fresh C=32', 'pawl-each', 'hand-written', 'requestsPerSecond'),
  },
  {
    name: 'fresh, C=32, fewest commits, requests/s against DBOS',
    bound: 5,
    kind: 'at least',
    ratio: ofRounds('fresh C=32', 'pawl-fewest', 'dbos', 'requestsPerSecond'),
  },
  {
    name: 'through Fastify, C=32, requests/s against the hand-written pattern behind Fastify',
    bound: 1.2,
    kind: 'at least',
    ratio: ofRounds('fresh C=32', 'pawl-fastify', 'hand-written-fastify', 'requestsPerSecond'),
  },
  {
    name: 'slow provider, requests/s against the original',
    bound: 20,
    kind: 'at least',
    ratio: ofRounds('slow provider', 'pawl-fewest', 'original', 'requestsPerSecond'),
  },
  {
    name: '1 ms away, C=1, p50 against hand-written',
    bound: 0.45,
    kind: 'at most',
    ratio: ofRounds('1 ms away', 'pawl-fewest', 'hand-written', 'p50Ms'),
  },
  {
    name: 'replay through Fastify, requests/s against a route with one SELECT',
    bound: 0.95,
    kind: 'at least',
    ratio: ofRounds('replay over HTTP', 'pawl-fastify', 'select-route', 'requestsPerSecond'),
  },
  {
    name: 'limits on, many scopes, C=32, requests/s against all guard rails off',
    bound: 0.93,
    kind: 'at least',
    ratio: ofRounds('guards', 'limits', 'all off', 'requestsPerSecond'),
  },
  {
    name: 'limits on, one scope, C=32, requests/s against all guard rails off',
    bound: 0.93,
    kind: 'at least',
    ratio: ofRounds('guards', 'limits, one scope', 'all off, one scope', 'requestsPerSecond'),
  },
  {
    name: 'protect on, C=32, requests/s against all guard rails off',
    bound: 0.9,
    kind: 'at least',
    ratio: ofRounds('guards', 'protect', 'all off', 'requestsPerSecond'),
  },
  {
    name: 'traces and metrics, C=32, requests/s against not instrumented',
    bound: 0.9,
    kind: 'at least',
    ratio: ofRounds('instrumented', 'traces and metrics', 'not instrumented', 'requestsPerSecond'),
  },
  {
    name: 'replay through Fastify with a cache in Redis, requests/s against a route with one SELECT',
    bound: 2,
    kind: 'at least',
    ratio: ofRounds('cached replay', 'pawl-fastify-cached', 'select-route', 'requestsPerSecond'),
  },
  {
    name: '2 million keys, fresh, C=32, requests/s against an empty table',
    bound: 0.97,
    kind: 'at least',
    ratio: ofRounds('growth', '2 million keys', 'empty table', 'requestsPerSecond'),
  },
  {
    name: 'partitioned (16), fresh, C=32, requests/s against plain',
    bound: 0.95,
    kind: 'at least',
    ratio: ofRounds('growth', 'empty table, partitioned', 'empty table', 'requestsPerSecond'),
  },
  {
    name: '10 million keys, partitioned, fresh, C=32, requests/s against an empty table',
    bound: 0.95,
    kind: 'at least',
    ratio: ofRounds(
      'growth',
      '10 million keys, partitioned',
      'empty table, partitioned',
      'requestsPerSecond',
    ),
  },
  {
    name: '10 million keys, replay, C=32, requests/s against an empty table',
    bound: 0.95,
    kind: 'at least',
    ratio: ofRounds('growth replay', '10 million keys', 'empty table', 'requestsPerSecond'),
  },
  {
    name: '10 million keys, partitioned, replay, C=32, requests/s against an empty table',
    bound: 0.95,
    kind: 'at least',
    ratio: ofRounds(
      'growth replay',
      '10 million keys, partitioned',
      'empty table, partitioned',
      'requestsPerSecond',
    ),
  },
  {
    name: 'log per ride, fewest commits, C=32',
    bound: 2.2,
    unit: ' kB',
    kind: 'at most',
    ratio: logOf('fresh C=32', 'pawl-fewest'),
  },
  {
    name: 'log per ride, fewest commits, C=32, with 2 million keys',
    bound: 7,
    unit: ' kB',
    kind: 'at most',
    ratio: logOf('growth', '2 million keys'),
  },
  {
    name: 'in the first 5 s of a process, C=32, requests/s against hand-written',
    bound: 1,
    kind: 'at least',
    ratio: ofRounds('start', 'pawl-fewest', 'hand-written', 'requestsPerSecond'),
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
  return RULES.map(({ name, bound, unit = '×', kind, ratio: measure }) => {
    const measured = measure(find)
    const ratio = measured === null || Number.isNaN(measured) ? null : measured
    return { name, ratio, unit, bound, kind, met: ratio === null ? null : isMet(ratio, bound, kind) }
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
