import type { AsJson, Reconciliation } from '../../../src/api.js'
import { get } from '../../api/client.js'
import { useAnswer } from '../../api/use-answer.js'
import { MomentField } from '../../components/moment-field.js'
import { Time } from '../../components/moment.js'
import { Page, Section } from '../../components/page.js'
import { Empty, Failure, Loading, Outdated } from '../../components/states.js'
import { Table } from '../../components/table.js'
import { formatBoundedCount, formatCount } from '../../format/count.js'
import { hrefOf, navigate } from '../../router/router.js'
import { DOUBT_COLUMNS, EFFECT_COLUMNS, GROUP_COLUMNS } from './columns.js'

interface ReconciliationPageProps {
  readonly query: Readonly<Record<string, string>>
}

/** What providers should have done in a time, to compare with what they say they did. */
export function ReconciliationPage({ query }: ReconciliationPageProps) {
  const { from = null, to = null } = query
  const { answer, error, isLoading, reload } = useAnswer(`reconciliation ${from} ${to}`, (signal) =>
    get<Reconciliation>('reconciliation', { from, to }, signal),
  )
  const choose = (change: { readonly from?: string | null; readonly to?: string | null }) =>
    navigate(hrefOf('reconciliation', { from, to, ...change }))
  return (
    <Page
      title="Reconciliation"
      intro="What is on record here of a time. Compare the counts with what your providers list for the same time; “pawl reconcile” does so one by one."
    >
      <div class="reconciled-window" role="group" aria-label="Time">
        <MomentField label="From" at={from ?? answer?.from ?? null} onChange={(at) => choose({ from: at })} />
        <MomentField label="To" at={to ?? answer?.to ?? null} onChange={(at) => choose({ to: at })} />
      </div>
      {answer === null && isLoading && <Loading what="effects" />}
      {answer === null && error !== null && <Failure error={error} onRetry={reload} />}
      {answer !== null && error !== null && <Outdated error={error} onRetry={reload} />}
      {answer !== null && <Reconciled answer={answer} />}
    </Page>
  )
}

function Reconciled({ answer }: { readonly answer: AsJson<Reconciliation> }) {
  const { from, to, groups, isPartial, withoutReference, inDoubt, unfinished } = answer
  return (
    <>
      <Section
        class="reconciled-table"
        title="Effects"
        aside={
          <>
            <Time at={from} /> to <Time at={to} />
          </>
        }
      >
        {isPartial && (
          <p class="reconciled-partial">
            There are more than are counted here. Choose a shorter time, or use “pawl reconcile”.
          </p>
        )}
        {groups.length === 0 ? (
          <Empty title="No effect was recorded in this time." />
        ) : (
          <Table
            caption="Effects by pipeline and phase"
            columns={GROUP_COLUMNS}
            rows={groups}
            rowKey={({ pipeline, phase, effectName }) => JSON.stringify([pipeline, phase, effectName])}
          />
        )}
      </Section>
      <Section
        class="reconciled-table"
        title={
          <>
            In doubt <span class="reconciled-count">{formatCount(inDoubt.length)}</span>
          </>
        }
        aside={<>{formatBoundedCount(unfinished)} unfinished from before the end of this time</>}
      >
        {inDoubt.length === 0 ? (
          <p class="muted">No call is in doubt.</p>
        ) : (
          <>
            <p class="reconciled-note">
              The provider may have acted on these calls, and they are not among the effects above. A person
              has to decide.
            </p>
            <Table
              caption="Requests of which a call is in doubt"
              columns={DOUBT_COLUMNS}
              rows={inDoubt}
              rowKey={({ keyId }) => keyId}
              linkOf={({ keyId }) => ({ to: `requests/${keyId}` })}
            />
          </>
        )}
      </Section>
      {withoutReference.length > 0 && (
        <Section
          class="reconciled-table"
          title={
            <>
              Without a reference <span class="reconciled-count">{formatCount(withoutReference.length)}</span>
            </>
          }
        >
          <p class="reconciled-note">
            Their phases declare no <code>reference</code>, so they can be found at the provider only by the
            key that was sent.
          </p>
          <Table
            caption="Effects without a reference of the provider"
            columns={EFFECT_COLUMNS}
            rows={withoutReference}
            rowKey={({ effectId }) => effectId}
            linkOf={({ keyId }) => ({ to: `requests/${keyId}` })}
            isWindowed
          />
        </Section>
      )}
    </>
  )
}
