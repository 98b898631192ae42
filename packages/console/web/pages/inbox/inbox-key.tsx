import type { AsJson, KeyRowSummary } from '../../../src/api.js'
import { ActionButtons } from '../../actions/action-buttons.js'
import type { KeyAction } from '../../actions/key-action.js'
import { ForeignText } from '../../components/foreign-text.js'
import { Age } from '../../components/moment.js'
import { Link } from '../../router/link.js'

interface InboxKeyProps {
  readonly of: AsJson<KeyRowSummary>
  readonly onChoose: (action: KeyAction) => void
}

/** One that needs somebody: what it is, where it stands, what went wrong, and what may be done. */
export function InboxKey({ of, onChoose }: InboxKeyProps) {
  const { keyId, key, scope, pipeline, version, point, createdAt, lastError, call } = of
  return (
    <li class="inbox-key">
      <div class="inbox-key-what">
        <p class="inbox-key-name">
          <Link to={`requests/${keyId}`}>
            <ForeignText text={key} isShort class="id" />
          </Link>
          <span class="inbox-key-scope">
            <span class="unseen">of scope </span>
            <ForeignText text={scope} isShort />
          </span>
        </p>
        <p class="inbox-key-where">
          <ForeignText text={`${pipeline}@${version}`} /> at <ForeignText text={point} />
          {call?.known === 'may_have_been_made' && (
            <>
              , call of <ForeignText text={call.phase} /> in doubt
            </>
          )}
          <span class="inbox-key-age">
            <Age since={createdAt} /> old
          </span>
        </p>
        {lastError !== null && (
          <p class="inbox-key-error">
            <ForeignText text={lastError} isShort />
          </p>
        )}
      </div>
      <ActionButtons of={of} onChoose={onChoose} isQuiet />
    </li>
  )
}
