import type { AttributeName, MetricName } from '../metrics/metric-table.js'
import type { Sums } from './expressions.js'

/** What can be set for an alert. Times are in seconds. */
export interface AlertSettings {
  /** How far back counters are looked at. */
  readonly windowS: number
  /** How long it has to be so. */
  readonly forS: number
  /** What is still normal. */
  readonly threshold: number
}

/** An alert: when it fires, and what to do then. */
export interface Alert extends AlertSettings {
  readonly name: string
  readonly severity: 'critical' | 'warning'
  /** In PromQL, from parts that know the names. */
  readonly expr: (sums: Sums, settings: AlertSettings) => string
  /** What its value is grouped by, for texts. */
  readonly by: readonly AttributeName[]
  readonly metrics: readonly MetricName[]
  readonly summary: string
  readonly description: string
}

const MINUTE_S = 60

/** All alerts, in the order in which they matter. */
export const ALERTS: readonly Alert[] = [
  {
    name: 'PawlStoreUnavailable',
    severity: 'critical',
    // One failed connection is none, and is out of the window before it has been there for so long; a database that is away fails every
    // request.
    windowS: 2 * MINUTE_S,
    forS: 2 * MINUTE_S,
    threshold: 0,
    by: [],
    metrics: ['pawl.requests'],
    expr: ({ increase }, { windowS, threshold }) =>
      `sum(${increase('pawl.requests', windowS, { 'pawl.outcome': 'unavailable' })}) > ${threshold}`,
    summary: 'Requests are refused because the database cannot answer.',
    description:
      '{{ $value | printf "%.0f" }} requests got 503 without any of their code running. Nothing is lost: their clients may send them again. Look at the database, and at the pool of the application.',
  },
  {
    name: 'PawlKeysStuck',
    severity: 'critical',
    windowS: 0,
    forS: MINUTE_S,
    threshold: 0,
    by: ['pawl.stuck.reason'],
    metrics: ['pawl.keys.stuck'],
    // Every process exports the same numbers of the database, so the highest one counts, and not the sum.
    expr: ({ label, series }, { threshold }) =>
      `max by (${label('pawl.stuck.reason')}) (${series('pawl.keys.stuck')}) > ${threshold}`,
    summary: 'Requests wait for a person: {{ $labels.pawl_stuck_reason }}.',
    description:
      '{{ $value | printf "%.0f" }} keys are stuck, and no automatic step may touch them. `pawl list --status stuck` has them; docs/operations.md says what to do for each reason.',
  },
  {
    name: 'PawlKeysUnattended',
    severity: 'critical',
    windowS: 0,
    forS: 2 * MINUTE_S,
    // A completer takes what is due within seconds. A long queue may take it minutes.
    threshold: 5 * MINUTE_S,
    by: [],
    metrics: ['pawl.keys.oldest_unattended'],
    expr: ({ series }, { threshold }) => `max(${series('pawl.keys.oldest_unattended')}) > ${threshold}`,
    summary: 'A request has been due for minutes, and nobody runs it.',
    description:
      'The oldest unattended key has waited for {{ $value | humanizeDuration }}. No completer runs, or it does not keep up, or the version is not registered anywhere: see `pawl status` and `pawl doctor`.',
  },
  {
    name: 'PawlCompleterSilent',
    severity: 'critical',
    windowS: 5 * MINUTE_S,
    forS: 5 * MINUTE_S,
    threshold: 0,
    by: [],
    metrics: ['pawl.round.duration'],
    expr: ({ increase }, { windowS, threshold }) =>
      `(sum(${increase('pawl.round.duration', windowS, { 'pawl.service': 'completer', 'pawl.round.result': 'ended' })}) or vector(0)) <= ${threshold}`,
    summary: 'No completer has ended a round.',
    description:
      'Requests whose client never comes back stay unfinished. Start `createBackground` in some process, or look at `pawl:round_failed` in the logs of those that have it.',
  },
  {
    name: 'PawlJobsDead',
    severity: 'critical',
    windowS: 0,
    forS: MINUTE_S,
    threshold: 0,
    by: [],
    metrics: ['pawl.jobs'],
    expr: ({ series }, { threshold }) =>
      `max(${series('pawl.jobs', { 'pawl.job.condition': 'dead' })}) > ${threshold}`,
    summary: 'Staged jobs were given up.',
    description:
      '{{ $value | printf "%.0f" }} jobs were tried as often as they may be, and wait for a person: `pawl jobs`, and `pawl requeue` once the reason is gone.',
  },
  {
    name: 'PawlJobsOverdue',
    severity: 'warning',
    windowS: 0,
    forS: 2 * MINUTE_S,
    threshold: 10 * MINUTE_S,
    by: [],
    metrics: ['pawl.jobs.oldest_due'],
    expr: ({ series }, { threshold }) => `max(${series('pawl.jobs.oldest_due')}) > ${threshold}`,
    summary: 'A staged job has been due for minutes.',
    description:
      'The oldest due job has waited for {{ $value | humanizeDuration }}. No relay runs, or its queue does not take jobs.',
  },
  {
    name: 'PawlDuplicatesOfTenant',
    severity: 'warning',
    windowS: 0,
    forS: 2 * MINUTE_S,
    // Ten a second, of one tenant: no client that waits between retries gets there.
    threshold: 600,
    by: ['pawl.scope.hash'],
    metrics: ['pawl.scope.duplicates'],
    expr: ({ label, series }, { threshold }) =>
      `sum by (${label('pawl.scope.hash')}) (${series('pawl.scope.duplicates', { 'pawl.scope.hash': { not: 'other' } })}) > ${threshold}`,
    summary: 'A tenant sends duplicates without end: scope {{ $labels.pawl_scope_hash }}.',
    description:
      '{{ $value | printf "%.0f" }} replays, conflicts and mismatches in a minute, of one scope. That is a bug of its client, or an attack.',
  },
  {
    name: 'PawlMismatches',
    severity: 'warning',
    windowS: 10 * MINUTE_S,
    forS: 5 * MINUTE_S,
    // A few are typos of people who try an API. One in a hundred is a client that reuses keys.
    threshold: 0.01,
    by: ['pawl.pipeline'],
    metrics: ['pawl.requests'],
    expr: ({ increase, label }, { windowS, threshold }) => {
      const by = `sum by (${label('pawl.pipeline')})`
      const wrong = `${by} (${increase('pawl.requests', windowS, { 'pawl.outcome': 'mismatch' })})`
      return `${wrong} > ${threshold} * ${by} (${increase('pawl.requests', windowS)})\n  and ${wrong} > ${MIN_MISMATCHES}`
    },
    summary: 'Clients of {{ $labels.pawl_pipeline }} reuse keys for other requests.',
    description:
      '{{ $value | printf "%.0f" }} requests came with the key of another one, and were refused. A client makes keys that are not unique, or somebody guesses keys.',
  },
  {
    name: 'PawlReaperBehind',
    severity: 'warning',
    windowS: 0,
    forS: 10 * MINUTE_S,
    threshold: 60 * MINUTE_S,
    by: [],
    metrics: ['pawl.keys.oldest_expired'],
    expr: ({ series }, { threshold }) => `max(${series('pawl.keys.oldest_expired')}) > ${threshold}`,
    summary: 'Expired keys are not deleted.',
    description:
      'The oldest of them could have been deleted {{ $value | humanizeDuration }} ago. No reaper runs, or rows of the application hold keys: see `pawl:reap_held`.',
  },
  {
    name: 'PawlReadingsStale',
    severity: 'warning',
    windowS: 0,
    forS: MINUTE_S,
    threshold: 2 * MINUTE_S,
    by: [],
    metrics: ['pawl.reading.age'],
    expr: ({ series }, { threshold }) => `min(${series('pawl.reading.age')}) > ${threshold}`,
    summary: 'No process gets the numbers of the database.',
    description:
      'For {{ $value | humanizeDuration }}, nobody has known how many keys are stuck or unattended, and the alerts about them are blind.',
  },
]

/** Below that, one in a hundred says nothing. */
const MIN_MISMATCHES = 5
