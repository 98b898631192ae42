import { useEffect, useState } from 'preact/hooks'
import type { AsJson, RequestReport } from '../../../src/api.js'
import { RequestActions } from '../../actions/request-actions.js'
import { get } from '../../api/client.js'
import { useSession } from '../../api/session.js'
import { useAnswer } from '../../api/use-answer.js'
import { Badge } from '../../components/badge.js'
import { Identifier } from '../../components/identifier.js'
import { Page, Section } from '../../components/page.js'
import { Failure, Loading, Outdated } from '../../components/states.js'
import { conditionOf } from '../../format/condition.js'
import { visibleText } from '../../format/visible-text.js'
import { clock } from '../../live/clock.js'
import { useNow } from '../../live/use-now.js'
import { Effects } from './effects.js'
import { Facts } from './facts.js'
import { Interventions } from './interventions.js'
import { Jobs } from './jobs.js'
import { LeaseBar } from './lease-bar.js'
import { NextStep } from './next-step.js'
import { Progress } from './progress.js'
import { RevealDialog } from './reveal-dialog.js'
import { Timeline } from './timeline.js'
import { Values } from './values.js'

export type ReportNow = AsJson<RequestReport>

/** How often a request that is not finished is read again while somebody looks at it. */
const REFRESH_MS = 2_000
/** One that is finished or stuck changes only when somebody changes it. */
const SLOW_REFRESH_MS = 15_000

/** One request, with all that is known of it. */
export function RequestPage({ keyId }: { readonly keyId: string }) {
  const { answer, error, reload, replace } = useReport(keyId)
  const [isRevealing, setRevealing] = useState(false)
  const [revealed, setRevealed] = useState<ReportNow | null>(null)
  const session = useSession()
  if (answer === null) {
    return (
      <Page title="Request">
        {error === null ? <Loading what="the request" /> : <Failure error={error} onRetry={reload} />}
      </Page>
    )
  }
  // What was revealed stays, as long as it is of the row as it is.
  const shown = revealed?.key.revision === answer.key.revision ? revealed : answer
  const { key } = answer
  const onReveal = session?.canReveal === true ? () => setRevealing(true) : undefined
  return (
    <Page
      title={visibleText(key.key)}
      width="wide"
      heading={<Identifier text={key.key} what="key" />}
      intro={<Where report={answer} />}
    >
      {error !== null && <Outdated error={error} onRetry={reload} />}
      <div class="request">
        <div class="request-main">
          <section class="request-now" aria-label="Now">
            <Now report={answer} />
            <LeaseBar report={answer} />
            <NextStep report={answer} />
            <RequestActions report={answer} onChanged={reload} />
          </section>
          <Progress report={answer} />
          <Section title="Timeline">
            <Timeline report={answer} />
          </Section>
          <Effects effects={answer.effects} />
          <Jobs jobs={shown.jobs} onReveal={onReveal} />
          <Interventions interventions={shown.interventions} onReveal={onReveal} />
        </div>
        <aside class="request-aside" aria-label="Facts and values">
          <Facts report={answer} />
          <Values report={shown} onReveal={onReveal} />
        </aside>
      </div>
      {isRevealing && (
        <RevealDialog
          keyId={keyId}
          onClose={() => setRevealing(false)}
          onRevealed={(report) => {
            clock.observe(report.now)
            setRevealed(report)
            replace(report)
            setRevealing(false)
          }}
        />
      )}
    </Page>
  )
}

/** Read again while somebody looks: quickly while it runs. */
function useReport(keyId: string) {
  const asked = useAnswer(keyId, async (signal) => {
    const report = await get<RequestReport>(`requests/${encodeURIComponent(keyId)}`, {}, signal)
    clock.observe(report.now)
    return report
  })
  const { answer, error, isLoading, reload } = asked
  const isRunning = answer?.key.status === 'running'
  const isGone = error?.code === 'not_found' || error?.code === 'invalid'
  useEffect(() => {
    if (isLoading || isGone) return
    const again = () => {
      if (document.hidden) timer = window.setTimeout(again, REFRESH_MS)
      else reload()
    }
    let timer = window.setTimeout(again, isRunning ? REFRESH_MS : SLOW_REFRESH_MS)
    return () => window.clearTimeout(timer)
  }, [isLoading, isRunning, isGone, reload])
  return asked
}

function Where({ report: { key } }: { readonly report: ReportNow }) {
  return (
    <span class="request-where">
      <span>
        Scope <Identifier text={key.scope} what="scope" />
      </span>
      <span>
        {visibleText(key.pipeline)} version {key.version}
      </span>
    </span>
  )
}

function Now({ report: { key } }: { readonly report: ReportNow }) {
  const condition = conditionOf(key, useNow())
  return (
    <p class="request-condition" role="status">
      <Badge condition={condition} detail={key.stuckReason} />
      <span class="muted">
        {condition === 'finished' ? `answered ${key.response?.status ?? ''}` : `at ${visibleText(key.point)}`}
      </span>
    </p>
  )
}
