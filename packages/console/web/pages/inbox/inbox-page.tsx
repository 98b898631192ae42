import { useEffect, useRef } from 'preact/hooks'
import type { AsJson, Inbox } from '../../../src/api.js'
import { useActionDialog } from '../../actions/use-action-dialog.js'
import { get } from '../../api/client.js'
import { useAnswer } from '../../api/use-answer.js'
import { Page, Section } from '../../components/page.js'
import { Empty, Failure, Loading, Outdated } from '../../components/states.js'
import { formatBoundedCount } from '../../format/count.js'
import { type FlowNow, useLiveFlow } from '../../live/live-flow.js'
import { Link } from '../../router/link.js'
import { InboxGroup } from './inbox-group.js'

/** What needs a person, by reason. */
export function InboxPage() {
  const { answer, error, reload } = useAnswer('inbox', (signal) => get<Inbox>('inbox', {}, signal))
  const { choose, dialog } = useActionDialog(reload)
  useReloadOnChange(useLiveFlow().flow, reload)
  return (
    <Page
      title="Inbox"
      intro="Nothing here goes on by itself. Its clients get an error that says so, so there is time to find out what happened first."
    >
      {answer === null && error === null && <Loading what="the inbox" />}
      {answer === null && error !== null && <Failure error={error} onRetry={reload} />}
      {answer !== null && error !== null && <Outdated error={error} onRetry={reload} />}
      {answer !== null && (
        <>
          {answer.groups.length === 0 && (
            <Empty title="Nothing needs you.">
              <p>No request is stuck, and none has been waiting for long.</p>
            </Empty>
          )}
          {answer.groups.map((group) => (
            <InboxGroup key={group.reason} group={group} onChoose={choose} />
          ))}
          <DeadJobs dead={answer.dead} />
        </>
      )}
      {dialog}
    </Page>
  )
}

function DeadJobs({ dead }: { readonly dead: AsJson<Inbox>['dead'] }) {
  if (dead.count === 0) return null
  const count = formatBoundedCount(dead)
  return (
    <Section
      title={
        <>
          Dead jobs <span class="inbox-count">{count}</span>
        </>
      }
    >
      <p>
        {dead.count === 1 ? 'It was' : 'They were'} given up after the last attempt. Fix the cause, and
        requeue {dead.count === 1 ? 'it' : 'them'}: <Link to="dead">dead letters</Link>.
      </p>
    </Section>
  )
}

/** Reads the inbox again when the map says that something came or went. */
function useReloadOnChange(flow: FlowNow | null, reload: () => void): void {
  const seen = useRef<string | null>(null)
  const now = flow === null ? null : JSON.stringify([flow.stuckBy, flow.jobs.dead])
  useEffect(() => {
    if (now === null) return
    if (seen.current !== null && seen.current !== now) reload()
    seen.current = now
  }, [now, reload])
}
