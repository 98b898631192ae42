import { Icon } from '../../components/icon.js'
import { PointName } from '../../components/point-name.js'
import type { ReportNow } from './request-page.js'

type StepState = 'done' | 'skipped' | 'here' | 'ahead'

const STATE_TEXT: Readonly<Record<StepState, string>> = {
  done: 'reached',
  skipped: 'skipped',
  here: 'stands here',
  ahead: 'not reached',
}

/** Where it stands in its pipeline. Nothing where the definition is not known: the timeline says what rows tell. */
export function Progress({ report: { key, pipeline } }: { readonly report: ReportNow }) {
  if (pipeline === null) return null
  const entries = new Map(key.trail.map((entry) => [entry.point, entry]))
  const names = ['started', ...pipeline.phases.map(({ name }) => name)]
  const phases = new Map(pipeline.phases.map((phase) => [phase.name, phase]))
  return (
    <ol class="progress" aria-label="Progress">
      {names.map((name) => {
        const state = stateOf(name, key, entries.get(name)?.skipped ?? false, entries.has(name))
        return (
          <li key={name} class={`step step-${state}`} aria-current={state === 'here' ? 'step' : undefined}>
            <span class="step-bar" aria-hidden="true" />
            <span class="step-name">
              {phases.get(name)?.kind === 'foreign' && <Icon name="call" />}
              <PointName name={name} />
            </span>
            <span class="step-state">{STATE_TEXT[state]}</span>
          </li>
        )
      })}
    </ol>
  )
}

function stateOf(name: string, key: ReportNow['key'], isSkipped: boolean, isInTrail: boolean): StepState {
  if (isSkipped) return 'skipped'
  if (name === key.recoveryPoint && key.status !== 'finished') return 'here'
  return isInTrail || name === 'started' || key.status === 'finished' ? 'done' : 'ahead'
}
