import { ForeignText } from '../../components/foreign-text.js'
import { Identifier } from '../../components/identifier.js'
import { Time } from '../../components/moment.js'
import { Section } from '../../components/page.js'
import type { ReportNow } from './request-page.js'

/** What it did at providers. */
export function Effects({ effects }: { readonly effects: ReportNow['effects'] }) {
  if (effects.length === 0) return null
  return (
    <Section title="Effects at providers">
      <ul class="cards">
        {effects.map(({ effectId, effectName, reference, providerKey, at, undoneAt }) => (
          <li key={effectId} class="card">
            <div class="card-head">
              <h3>
                <ForeignText text={effectName} />
              </h3>
              <p class="muted">
                {undoneAt !== null && (
                  <>
                    undone <Time at={undoneAt} />,{' '}
                  </>
                )}
                settled <Time at={at} />
              </p>
            </div>
            <p class="effect-names">
              <span>
                <span class="muted">Reference</span>
                {reference === null ? 'none' : <Identifier text={reference} what="reference" />}
              </span>
              <span>
                <span class="muted">Provider key</span>
                <Identifier text={providerKey} what="provider key" />
              </span>
            </p>
          </li>
        ))}
      </ul>
    </Section>
  )
}
