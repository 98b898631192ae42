import type { AsJson, Inbox } from '../../../src/api.js'
import type { ActedOn } from '../../actions/action-buttons.js'
import type { KeyAction } from '../../actions/key-action.js'
import { Section } from '../../components/page.js'
import { formatBoundedCount } from '../../format/count.js'
import { REASON_TEXT } from '../../format/stuck-reason.js'
import { Link } from '../../router/link.js'
import { DECISIONS } from './decision.js'
import { InboxKey } from './inbox-key.js'

interface InboxGroupProps {
  readonly group: AsJson<Inbox>['groups'][number]
  readonly onChoose: (of: ActedOn, action: KeyAction) => void
}

/** The keys that need somebody for the same reason, with what to find out and what to do then. */
export function InboxGroup({ group: { reason, count, keys }, onChoose }: InboxGroupProps) {
  const { title, meaning } = REASON_TEXT[reason]
  const { first, steps } = DECISIONS[reason]
  const isMore = count.isAtLeast || count.count > keys.length
  const filter =
    reason === 'unattended_for_long' ? { status: 'unattended' } : { status: 'stuck', stuckReason: reason }
  return (
    <Section
      class="inbox-group"
      title={
        <>
          {title} <span class="inbox-count">{formatBoundedCount(count)}</span>
        </>
      }
      aside={
        isMore ? (
          <Link to="requests" query={filter}>
            The oldest {keys.length} of {formatBoundedCount(count)}: see all
          </Link>
        ) : undefined
      }
    >
      <div class="inbox-columns">
        <div class="decision">
          <p class="decision-meaning">{meaning}</p>
          <h3>Find out</h3>
          <p>{first}</p>
          <h3>Then</h3>
          <dl class="decision-steps">
            {steps.map(({ found, act }) => (
              <div key={found}>
                <dt>{found}</dt>
                <dd>{act}</dd>
              </div>
            ))}
          </dl>
        </div>
        <ul class="inbox-keys">
          {keys.map((key) => (
            <InboxKey key={key.keyId} of={key} onChoose={(action) => onChoose(key, action)} />
          ))}
        </ul>
      </div>
    </Section>
  )
}
