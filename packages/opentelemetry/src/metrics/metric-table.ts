/** What a metric can be split by. Each has few values, or as many as the application declares; only scopes are many, and bounded. */
export const ATTRIBUTES = {
  'pawl.pipeline': 'Name of the pipeline.',
  'pawl.version': 'Version of the pipeline.',
  'pawl.by': 'Who asked: `execute`, `enqueue` or `resume` (a completer, or whoever knows the key by its id).',
  'pawl.outcome':
    'What became of the request: the `type` of its outcome, `enqueued` and `gone` included; `threw` for wrong use.',
  'pawl.phase': "Name of the phase; with `commits: 'fewest'`, of the first one of the leg.",
  'pawl.phase.kind': '`local`, `foreign` or `finish`.',
  'pawl.phase.result':
    '`advanced`, `finished`, `again` (decided anew after a lost connection), `failed`, `stuck` or `fenced_off`.',
  'pawl.call.step': '`call` or `reconcile`.',
  'pawl.call.result': '`returned` or `threw`.',
  'pawl.connection.obtained': 'Whether there was one in time.',
  'pawl.retry.reason': 'Why a key was given back: the `reason` of `retry_later`.',
  'pawl.stuck.reason': 'Why a person has to decide: the `reason` of `stuck`.',
  'pawl.committed': 'Whether the transaction had committed.',
  'pawl.replay.from': '`primary`, `replica` or `cache`.',
  'pawl.breaker.state': '`opened`, `half_open` or `closed`.',
  'pawl.service': '`completer`, `relay` or `reaper`.',
  'pawl.round.result': '`ended` or `failed`.',
  'pawl.round.count': 'What was counted: a member of what `runOnce` of the service returns.',
  'pawl.job.result':
    '`delivered`, `failed` (tried again), `dead` (given up) or `lost` (another relay has it).',
  'pawl.duplicate': '`replayed`, `in_flight` or `mismatch`.',
  'pawl.scope.hash': 'Hash of the scope, or `other` for the rest.',
  'pawl.recovery_point': 'The last phase that had committed.',
  'pawl.key.condition': '`held`, `backing_off`, `unattended` or `stuck`.',
  'pawl.job.condition': '`waiting` or `dead`.',
  'pawl.table': 'Name of the table.',
  'pawl.row.state': '`live` or `dead` (to be removed by VACUUM).',
} as const

/** The name of an attribute. */
export type AttributeName = keyof typeof ATTRIBUTES

/** How a metric gets its values. */
type Feed = 'requests' | 'channels' | 'rounds' | 'database' | 'scopes' | 'reader'

/** One metric: what it is called, what it is in, and where it comes from. */
export interface Metric {
  readonly instrument: 'counter' | 'histogram' | 'gauge'
  /** As UCUM writes it: `s`, `By`, or what is counted in braces. */
  readonly unit: string
  readonly description: string
  readonly attributes: readonly AttributeName[]
  readonly feed: Feed
}

/** All metrics, by name: instruments, the page of the docs, the alerts and the dashboard are made from it. */
export const METRICS = {
  'pawl.requests': {
    instrument: 'counter',
    unit: '{request}',
    description: 'Requests by their outcome.',
    attributes: ['pawl.pipeline', 'pawl.version', 'pawl.by', 'pawl.outcome'],
    feed: 'requests',
  },
  'pawl.request.duration': {
    instrument: 'histogram',
    unit: 's',
    description: 'How long requests took, from the first statement to the outcome.',
    attributes: ['pawl.pipeline', 'pawl.outcome'],
    feed: 'requests',
  },
  'pawl.phase.duration': {
    instrument: 'histogram',
    unit: 's',
    description: 'How long phases took, until they were durable or had failed; calls included.',
    attributes: ['pawl.pipeline', 'pawl.phase', 'pawl.phase.kind', 'pawl.phase.result'],
    feed: 'requests',
  },
  'pawl.call.duration': {
    instrument: 'histogram',
    unit: 's',
    description: "How long the application's calls to providers took.",
    attributes: ['pawl.pipeline', 'pawl.phase', 'pawl.call.step', 'pawl.call.result'],
    feed: 'requests',
  },
  'pawl.connection.wait.duration': {
    instrument: 'histogram',
    unit: 's',
    description: 'How long the engine waited for a connection of the pool.',
    attributes: ['pawl.connection.obtained'],
    feed: 'requests',
  },
  'pawl.scope.duplicates': {
    instrument: 'gauge',
    unit: '{request}',
    description:
      'Duplicates that a scope sent in the last full interval (a minute, unless `duplicatesEveryMs` says otherwise): those of the scopes with the most, the rest as `other`.',
    attributes: ['pawl.scope.hash', 'pawl.duplicate'],
    feed: 'scopes',
  },
  'pawl.replays': {
    instrument: 'counter',
    unit: '{request}',
    description: 'Stored responses, by where they came from.',
    attributes: ['pawl.pipeline', 'pawl.replay.from'],
    feed: 'channels',
  },
  'pawl.takeovers': {
    instrument: 'counter',
    unit: '{key}',
    description: 'Unattended keys that were granted again.',
    attributes: ['pawl.pipeline'],
    feed: 'channels',
  },
  'pawl.phase.failures': {
    instrument: 'counter',
    unit: '{failure}',
    description: 'Phases that did not commit, whose keys were given back to be tried again.',
    attributes: ['pawl.pipeline', 'pawl.phase', 'pawl.retry.reason'],
    feed: 'channels',
  },
  'pawl.transaction.retries': {
    instrument: 'counter',
    unit: '{retry}',
    description: 'Transactions of phases that met a conflict or lost their connection, and were run again.',
    attributes: ['pawl.pipeline', 'pawl.phase'],
    feed: 'channels',
  },
  'pawl.commits.unknown': {
    instrument: 'counter',
    unit: '{commit}',
    description: 'COMMITs without an answer, by what the raised fence showed.',
    attributes: ['pawl.pipeline', 'pawl.phase', 'pawl.committed'],
    feed: 'channels',
  },
  'pawl.calls.unknown': {
    instrument: 'counter',
    unit: '{call}',
    description: 'Calls whose outcome will never be known, and after which the pipeline went on.',
    attributes: ['pawl.pipeline', 'pawl.phase'],
    feed: 'channels',
  },
  'pawl.fences.lost': {
    instrument: 'counter',
    unit: '{fence}',
    description: 'Executions whose key another holder took over, and which wrote nothing after that.',
    attributes: ['pawl.pipeline', 'pawl.phase'],
    feed: 'channels',
  },
  'pawl.keys.marked_stuck': {
    instrument: 'counter',
    unit: '{key}',
    description: 'Keys that became stuck.',
    attributes: ['pawl.pipeline', 'pawl.stuck.reason'],
    feed: 'channels',
  },
  'pawl.breaker.changes': {
    instrument: 'counter',
    unit: '{change}',
    description: 'Changes of the breaker that keeps requests from waiting for a database that is away.',
    attributes: ['pawl.breaker.state'],
    feed: 'channels',
  },
  'pawl.warnings': {
    instrument: 'counter',
    unit: '{warning}',
    description: 'Warnings that a developer should look at.',
    attributes: [],
    feed: 'channels',
  },
  'pawl.round.duration': {
    instrument: 'histogram',
    unit: 's',
    description: 'How long rounds of background services took.',
    attributes: ['pawl.service', 'pawl.round.result'],
    feed: 'rounds',
  },
  'pawl.round.items': {
    instrument: 'counter',
    unit: '{item}',
    description: 'What rounds of the completer and the reaper did.',
    attributes: ['pawl.service', 'pawl.round.count'],
    feed: 'rounds',
  },
  'pawl.job.deliveries': {
    instrument: 'counter',
    unit: '{delivery}',
    description: 'Deliveries of staged jobs, by how they ended.',
    attributes: ['pawl.job.result'],
    feed: 'rounds',
  },
  'pawl.keys': {
    instrument: 'gauge',
    unit: '{key}',
    description: 'Unfinished keys.',
    attributes: ['pawl.pipeline', 'pawl.version', 'pawl.recovery_point', 'pawl.key.condition'],
    feed: 'database',
  },
  'pawl.keys.stuck': {
    instrument: 'gauge',
    unit: '{key}',
    description: 'Keys that wait for a person.',
    attributes: ['pawl.stuck.reason'],
    feed: 'database',
  },
  'pawl.keys.finished': {
    instrument: 'gauge',
    unit: '{key}',
    description: 'Finished keys that are kept for replays; counted up to a bound.',
    attributes: [],
    feed: 'database',
  },
  'pawl.keys.expired': {
    instrument: 'gauge',
    unit: '{key}',
    description: 'Finished keys that the reaper may delete; counted up to a bound.',
    attributes: [],
    feed: 'database',
  },
  'pawl.keys.oldest_unattended': {
    instrument: 'gauge',
    unit: 's',
    description: 'How long the key that has been due longest has had nobody to run it; 0 if there is none.',
    attributes: [],
    feed: 'database',
  },
  'pawl.keys.oldest_expired': {
    instrument: 'gauge',
    unit: 's',
    description: 'How long the key that expired first could have been deleted; 0 if there is none.',
    attributes: [],
    feed: 'database',
  },
  'pawl.jobs': {
    instrument: 'gauge',
    unit: '{job}',
    description: 'Staged jobs.',
    attributes: ['pawl.job.condition'],
    feed: 'database',
  },
  'pawl.jobs.oldest_due': {
    instrument: 'gauge',
    unit: 's',
    description: 'How long the oldest due job has been due; 0 if there is none.',
    attributes: [],
    feed: 'database',
  },
  'pawl.table.size': {
    instrument: 'gauge',
    unit: 'By',
    description: 'What a table takes, with its indexes.',
    attributes: ['pawl.table'],
    feed: 'database',
  },
  'pawl.table.rows': {
    instrument: 'gauge',
    unit: '{row}',
    description: 'Rows of a table, as PostgreSQL estimates them; dead ones are bloat.',
    attributes: ['pawl.table', 'pawl.row.state'],
    feed: 'database',
  },
  'pawl.reading.age': {
    instrument: 'gauge',
    unit: 's',
    description: 'How old the numbers of the database are that this process has, whoever has read them.',
    attributes: [],
    feed: 'reader',
  },
  'pawl.reading.failures': {
    instrument: 'counter',
    unit: '{failure}',
    description: 'Attempts to get the numbers of the database that failed.',
    attributes: [],
    feed: 'reader',
  },
} as const satisfies Record<`pawl.${string}`, Metric>

/** The name of a metric. */
export type MetricName = keyof typeof METRICS

/** The names of all metrics of one kind of instrument. */
export type NamesOf<Kind extends Metric['instrument']> = {
  [Name in MetricName]: (typeof METRICS)[Name]['instrument'] extends Kind ? Name : never
}[MetricName]

/** All metrics, with their names. */
export const metricList: readonly (Metric & { readonly name: MetricName })[] = (
  Object.keys(METRICS) as MetricName[]
).map((name) => ({ name, ...METRICS[name] }))
