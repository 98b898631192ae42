import type { Erasure, ErasureReport, Kept, KeptBecause } from '@pawl/core'
import { becauseOf, becauseOptions } from '../because.js'
import { defineCommand, flag, required, value } from '../command.js'
import { EXIT } from '../exit-code.js'
import { parseDuration } from '../parse/duration.js'
import { parseText } from '../parse/value.js'
import { counted } from '../render/counted.js'
import type { Paint } from '../render/paint.js'
import { facts, table } from '../render/table.js'
import { momentText } from '../render/time.js'
import { dryRunOption } from '../steer-keys.js'

export const eraseCommand = defineCommand({
  name: 'erase',
  summary: 'remove what the requests of a scope have left',
  args: [],
  options: {
    scope: required('SCOPE', parseText, 'whose requests'),
    key: value('KEY', parseText, 'only what belongs to this key'),
    ...becauseOptions,
    window: value('DURATION', parseDuration, 'keep effects that are younger, with their keys; default: 24h'),
    'recent-effects': flag('erase those, too: a retry of such a key runs again'),
    'undelivered-jobs': flag('erase jobs that are still to be delivered, too: they never are'),
    ...dryRunOption,
  },
  details: [
    'Finished keys and dead jobs are deleted. Effects stay for pawl reconcile, and records of interventions stay as a record, with hashes in place of names. docs/privacy.md says what is left and what your own tables need.',
    'Running and stuck requests, effects within the provider’s window, and jobs that are still to be delivered are kept and listed. Erase again when they are done.',
    'It goes batch by batch. If it is interrupted, run it again. The reason is kept, so it must not name the scope or the key.',
    'After it, a retry of an erased key is a new request. The environment’s PAWL_HASH_SECRET, if set, is what hashes are made with: give it the hashSecret of your engines.',
  ],
  exits: {
    [EXIT.findings]: 'something had to be kept; erase again later',
  },
  async run({ options }, context) {
    const { scope, key, window: windowMs } = options
    const erasure: Erasure = {
      scope,
      ...(key !== undefined && { key }),
      ...becauseOf(options, context),
      ...(windowMs !== undefined && { windowMs }),
      recentEffects: options['recent-effects'],
      undeliveredJobs: options['undelivered-jobs'],
      dryRun: options['dry-run'],
    }
    const report = await context.withDatabase(({ operator }) => operator.erase(erasure))
    return {
      exit: report.complete ? EXIT.ok : EXIT.findings,
      lines: render(report, options['dry-run'], context.paint),
      json: { dryRun: options['dry-run'], ...report },
    }
  },
})

function render(report: ErasureReport, isDry: boolean, paint: Paint): readonly string[] {
  const { erased, kept, keptCount, scopeHash } = report
  const pairs = [
    ['Deleted keys', String(erased.keys)],
    ['Deleted jobs', String(erased.jobs)],
    ['Effects without names', String(erased.effects)],
    ['Interventions without names', String(erased.interventions)],
    ['Scope in the record', scopeHash],
  ] as const
  return [
    ...(isDry ? ['Nothing was changed; leave out --dry-run to do this.', ''] : []),
    ...facts(pairs, paint),
    ...(keptCount === 0 ? [] : ['', ...renderKept(kept, paint), '', sumOf(report)]),
  ]
}

const WHY: Readonly<Record<KeptBecause, string>> = {
  running: 'runs, or is to be resumed',
  stuck: 'is stuck: unstick or answer it first',
  recent_effect: 'had an effect within the window',
  undelivered: 'job still to be delivered',
  referenced: 'a row, trigger or policy of yours keeps it',
  locked: 'locked by a transaction that has not ended',
}

function renderKept(kept: readonly Kept[], paint: Paint): readonly string[] {
  return table(
    [{ title: 'KEPT' }, { title: 'NAME' }, { title: 'ID' }, { title: 'WHY' }, { title: 'UNTIL' }],
    kept.map(({ what, name, id, why, until }) => [
      what,
      name ?? '—',
      id,
      WHY[why],
      until === null ? '' : momentText(until),
    ]),
    paint,
  )
}

function sumOf({ kept, keptCount }: ErasureReport): string {
  const more = keptCount > kept.length ? ` (the first ${kept.length} are listed)` : ''
  return `${counted(keptCount, 'row')} had to be kept${more}. Erase again when the reason is gone.`
}
