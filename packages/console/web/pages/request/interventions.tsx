import { ForeignText } from '../../components/foreign-text.js'
import { HiddenValue } from '../../components/hidden-value.js'
import { Time } from '../../components/moment.js'
import { Section } from '../../components/page.js'
import type { ReportNow } from './request-page.js'

interface InterventionsProps {
  readonly interventions: ReportNow['interventions']
  readonly onReveal: (() => void) | undefined
}

/** Who did what to it, and why. */
export function Interventions({ interventions, onReveal }: InterventionsProps) {
  if (interventions.length === 0) return null
  return (
    <Section title="Interventions">
      <ul class="cards">
        {interventions.map((each, index) => (
          <li key={index} class="card">
            <div class="card-head">
              <h3>
                {each.action.replaceAll('_', ' ')} <span class="muted">by</span>{' '}
                <ForeignText text={each.actor} />
              </h3>
              <p class="muted">
                <Time at={each.at} />
              </p>
            </div>
            {each.reason !== null && (
              <p>
                <ForeignText text={each.reason} />
              </p>
            )}
            <HiddenValue value={each.detail} what={`detail of ${each.action}`} onReveal={onReveal} />
          </li>
        ))}
      </ul>
    </Section>
  )
}
