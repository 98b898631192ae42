import type { EffectView, ProviderRecord, ReconcileReport } from '@pawl/core'
import type { Paint } from './paint.js'
import { safeText } from './safe-text.js'
import { facts, table } from './table.js'
import { momentText } from './time.js'

/** What could not be compared counts as a disagreement: it is not known to agree. */
export function isInAgreement(report: ReconcileReport): boolean {
  const { missingHere, missingThere, different, unmatchable } = report
  return [missingHere, missingThere, different, unmatchable].every((list) => list.length === 0)
}

export function renderReconciliation(report: ReconcileReport, paint: Paint): readonly string[] {
  const { matched, missingHere, missingThere, different, unmatchable, unfinished } = report
  const totals = [
    ['Matched', String(matched)],
    ['Missing here', String(missingHere.length)],
    ['Missing there', String(missingThere.length)],
    ['Different', String(different.length)],
    ['Not comparable', String(unmatchable.length)],
    ['Unfinished keys', `${unfinished.count}${unfinished.isAtLeast ? '+' : ''}`],
  ] as const
  return [
    ...facts(totals, paint),
    ...section(
      'Missing here: the provider has these, but no effect was recorded',
      renderRecords(missingHere, paint),
      paint,
    ),
    ...section(
      'Missing there: these effects were recorded, but the provider has no such record',
      renderEffects(missingThere, paint),
      paint,
    ),
    ...section(
      'Different',
      different.map(({ kind, detail }) => `${paint('yellow', kind)}  ${safeText(detail)}`),
      paint,
    ),
    ...section(
      'Not comparable: no reference here, and no provider key there',
      renderEffects(unmatchable, paint),
      paint,
    ),
    '',
    isInAgreement(report) ? paint('green', 'Both sides agree.') : paint('red', 'The two sides do not agree.'),
    ...(missingHere.length > 0 && unfinished.count > 0
      ? ['What is missing here may belong to an unfinished key: see pawl list.']
      : []),
  ]
}

function renderRecords(records: readonly ProviderRecord[], paint: Paint): readonly string[] {
  if (records.length === 0) return []
  return table(
    [{ title: 'TIME (UTC)' }, { title: 'REFERENCE' }, { title: 'PROVIDER KEY' }, { title: 'DETAIL' }],
    records.map(({ at, reference, providerKey, detail }) => [
      momentText(at),
      reference,
      providerKey ?? '—',
      detail === undefined ? '' : JSON.stringify(detail),
    ]),
    paint,
  )
}

function renderEffects(effects: readonly EffectView[], paint: Paint): readonly string[] {
  if (effects.length === 0) return []
  return table(
    [
      { title: 'TIME (UTC)' },
      { title: 'REFERENCE' },
      { title: 'EFFECT' },
      { title: 'PIPELINE' },
      { title: 'SCOPE' },
      { title: 'KEY' },
      { title: 'PROVIDER KEY' },
    ],
    effects.map((effect) => [
      momentText(effect.at),
      effect.reference ?? '—',
      effect.effectName,
      `${effect.pipeline}@${effect.version}`,
      effect.scope,
      effect.key,
      effect.providerKey,
    ]),
    paint,
  )
}

function section(title: string, lines: readonly string[], paint: Paint): readonly string[] {
  return lines.length === 0 ? [] : ['', paint('bold', title), ...lines]
}
