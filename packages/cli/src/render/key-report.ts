import type { EffectView, InterventionView, KeyReport, KeyView } from '@pawl/core'
import { conditionCell } from './condition.js'
import { renderJobs } from './jobs.js'
import type { Paint } from './paint.js'
import { bodyText, headersText, type Reveal, valueText } from './redact.js'
import { safeText } from './safe-text.js'
import { type Cell, facts, table } from './table.js'
import { preciseText, durationText, momentText } from './time.js'

interface View {
  readonly now: Date
  readonly reveal: Reveal
  readonly paint: Paint
}

/** Everything known about a key, the most wanted facts first. */
export function renderKeyReport(report: KeyReport, view: View): readonly string[] {
  const { key, effects, jobs, interventions } = report
  const { reveal, paint } = view
  return [
    ...facts(factsOf(key, view), paint),
    ...section('Timeline', renderTrail(key, paint), paint),
    ...section('Effects', renderEffects(effects, paint), paint),
    ...section('Jobs', jobs.length === 0 ? [] : renderJobs(jobs, { reveal, ofOneKey: true, paint }), paint),
    ...section('Interventions', renderInterventions(interventions, view), paint),
  ]
}

function factsOf(key: KeyView, { now, reveal }: View): [string, Cell][] {
  return [
    ['Scope', key.scope],
    ['Key', key.key],
    ['Id', key.keyId],
    ['Pipeline', `${key.pipeline}@${key.version}`],
    ['Condition', conditionCell(key, now)],
    ['Recovery point', key.point],
    ['Lease', leaseText(key, now)],
    ['Fence', String(key.fence)],
    [
      'Attempts',
      `${key.attempts} failed or crashed, ${key.retries} orderly ${key.retries === 1 ? 'retry' : 'retries'}, since the last advance`,
    ],
    ...optional(
      'Next attempt',
      key.status === 'running' && key.runAfter !== null ? momentText(key.runAfter) : null,
    ),
    ...optional('Call in doubt', callText(key)),
    ...optional('Its result', key.call?.known === 'returned' ? valueText(key.call.result, reveal) : null),
    ...optional('Last error', key.lastError),
    ...optional('Protected', key.sealed),
    [
      'Reserved',
      `${momentText(key.createdAt)} (${durationText(now.getTime() - key.createdAt.getTime())} ago)`,
    ],
    ...optional('Unstuck', key.unstuckAt === null ? null : momentText(key.unstuckAt)),
    ...optional('Expires', key.expiresAt === null ? null : momentText(key.expiresAt)),
    ['Input', valueText(key.input, reveal)],
    ['State', valueText(key.state, reveal)],
    ...responseFacts(key, reveal),
  ]
}

function optional(name: string, value: string | null): [string, Cell][] {
  return value === null ? [] : [[name, value]]
}

function leaseText({ lease }: KeyView, now: Date): string {
  if (lease === null) return 'nobody holds it'
  const away = durationText(Math.abs(lease.until.getTime() - now.getTime()))
  return lease.live ? `held for ${away} more, unless renewed` : `ran out ${away} ago`
}

function callText({ call }: KeyView): string | null {
  if (call === null) return null
  switch (call.known) {
    case 'may_have_been_made':
      return `${call.phase}: may have been made; its outcome is unknown`
    case 'returned':
      if (call.late)
        return `${call.phase}: returned after the key became stuck; unstick it to settle that result`
      return `${call.phase}: returned; its result is saved but not settled yet`
    case 'not_made':
      return `${call.phase}: was not made`
  }
}

function responseFacts({ response }: KeyView, reveal: Reveal): [string, Cell][] {
  if (response === null) return []
  const { status, headers, body } = response
  return [
    ['Response', String(status)],
    ['Headers', headersText(headers, reveal)],
    ['Body', bodyText(body, reveal)],
  ]
}

/** Which recovery point was reached when, how long after the previous one, and under which fence. */
function renderTrail({ createdAt, trail }: KeyView, paint: Paint): readonly string[] {
  const start = { point: 'started', at: createdAt, fence: 1, skipped: false, outcomeUnknown: false }
  const steps = [start, ...trail]
  return table(
    [
      { title: 'TIME (UTC)' },
      { title: 'ELAPSED', align: 'right' },
      { title: 'POINT' },
      { title: 'FENCE', align: 'right' },
      { title: '' },
    ],
    steps.map(({ point, at, fence, skipped, outcomeUnknown }, index) => {
      const before = steps[index - 1]
      const elapsed = before === undefined ? '' : `+${durationText(at.getTime() - before.at.getTime())}`
      // An enqueued key has fence 2 as soon as somebody runs it, and nothing has happened to it.
      const isFenceRaised = index > 1 && before?.fence !== fence
      const note = [
        skipped ? 'skipped' : '',
        outcomeUnknown ? 'outcome of its call is unknown' : '',
        isFenceRaised ? 'fence raised' : '',
      ]
      return [preciseText(at), elapsed, point, String(fence), note.filter((text) => text !== '').join(', ')]
    }),
    paint,
  )
}

function renderEffects(effects: readonly EffectView[], paint: Paint): readonly string[] {
  if (effects.length === 0) return []
  return table(
    [
      { title: 'TIME (UTC)' },
      { title: 'PHASE' },
      { title: 'EFFECT' },
      { title: 'REFERENCE' },
      { title: 'PROVIDER KEY' },
    ],
    effects.map((effect) => [
      momentText(effect.at),
      effect.phase,
      effect.effectName,
      effect.undoneAt === null
        ? (effect.reference ?? '—')
        : `${effect.reference ?? '—'} (undone ${momentText(effect.undoneAt)})`,
      effect.providerKey,
    ]),
    paint,
  )
}

function renderInterventions(
  interventions: readonly InterventionView[],
  { reveal, paint }: View,
): readonly string[] {
  if (interventions.length === 0) return []
  return table(
    [
      { title: 'TIME (UTC)' },
      { title: 'ACTION' },
      { title: 'ACTOR' },
      { title: 'REASON' },
      { title: 'DETAIL' },
    ],
    interventions.map(({ action, actor, reason, detail, at }) => [
      momentText(at),
      action,
      actor,
      safeText(reason ?? '—'),
      valueText(detail, reveal),
    ]),
    paint,
  )
}

function section(title: string, lines: readonly string[], paint: Paint): readonly string[] {
  return lines.length === 0 ? [] : ['', paint('bold', title), ...lines]
}
