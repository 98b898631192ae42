import type { ComponentChildren } from 'preact'
import { useSession } from '../../api/session.js'
import { ForeignText } from '../../components/foreign-text.js'
import { Icon } from '../../components/icon.js'
import { Identifier } from '../../components/identifier.js'
import { Age, Time } from '../../components/moment.js'
import { formatCount } from '../../format/count.js'
import { Link } from '../../router/link.js'
import type { ReportNow } from './request-page.js'
import { traceLink } from './trace-link.js'

const CALL_TEXT = {
  may_have_been_made: 'may have been made',
  returned: 'returned, and is not settled',
  not_made: 'not made',
} as const

/** What is known of it, in one look. */
export function Facts({ report: { key, pipeline } }: { readonly report: ReportNow }) {
  const session = useSession()
  const trace = traceLink(session?.traceUrl ?? null, key.traceparent)
  const { name, version } = { name: key.pipeline, version: key.version }
  return (
    <dl class="facts">
      <Fact name="Pipeline">
        <Link to="requests" query={{ pipeline: name, version }}>
          <ForeignText text={name} />
        </Link>{' '}
        version {version}
        {pipeline === null && <span class="muted"> (no engine has recorded it)</span>}
      </Fact>
      <Fact name="Point">
        <ForeignText text={key.point} />
      </Fact>
      <Fact name="Age">
        <Age since={key.createdAt} />, since <Time at={key.createdAt} />
      </Fact>
      <Fact name="Fence">
        {formatCount(key.fence)} <span class="muted">(grows with every grant)</span>
      </Fact>
      <Fact name="Since the last point">
        {formatCount(key.attempts)} failed, {formatCount(key.retries)} orderly retries
      </Fact>
      {key.runAfter !== null && key.status === 'running' && (
        <Fact name="Not before">
          <Time at={key.runAfter} />
        </Fact>
      )}
      {key.call !== null && (
        <Fact name="Open call">
          <ForeignText text={key.call.phase} />: {CALL_TEXT[key.call.known]}
          {key.call.late && ', after it had become stuck'}
        </Fact>
      )}
      {key.expiresAt !== null && (
        <Fact name="Kept until">
          <Time at={key.expiresAt} />
        </Fact>
      )}
      {key.unstuckAt !== null && (
        <Fact name="Unstuck">
          <Time at={key.unstuckAt} />
        </Fact>
      )}
      <Fact name="Id">
        <Identifier text={key.keyId} what="id" />
      </Fact>
      {trace !== null && (
        <Fact name="Trace">
          <a href={trace} target="_blank" rel="noreferrer noopener">
            Of its first attempt <Icon name="external" />
          </a>
        </Fact>
      )}
    </dl>
  )
}

function Fact({ name, children }: { readonly name: string; readonly children: ComponentChildren }) {
  return (
    <div class="fact">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}
