import { liveFlow, type LiveState } from '../live/live-flow.js'
import { Button } from './button.js'
import { ForeignText } from './foreign-text.js'
import { Icon } from './icon.js'

const WORDS: Readonly<Record<LiveState['connection'], string>> = {
  connecting: 'Connecting',
  live: 'Live',
  reconnecting: 'Reconnecting',
  away: 'Database away',
  signed_out: 'Signed out',
}

/** Whether what is shown is of now. */
export function ConnectionMark({ state }: { readonly state: LiveState }) {
  const isOther = state.connection === 'away' && state.failure?.code !== 'database_away'
  return (
    <span class={`connection connection-${state.connection}`} role="status">
      <span class="connection-dot" aria-hidden="true" />
      {isOther ? 'Not live' : WORDS[state.connection]}
    </span>
  )
}

/** Over every page while it is not of now: what is wrong, and what that means. */
export function ConnectionBanner({ state }: { readonly state: LiveState }) {
  const { connection, failure, flow } = state
  if (connection === 'live' || connection === 'connecting') return null
  // Nothing is out of date yet, and the page itself says what it could not get.
  if (connection === 'away' && flow === null) return null
  const old = flow === null ? '' : ' What you see is of before.'
  return (
    <div class={`banner banner-${connection}`} role="status">
      <Icon name="warning" />
      <p>
        {connection === 'reconnecting' &&
          `The console does not answer. This page tries again by itself.${old}`}
        {connection === 'signed_out' &&
          'You are signed out. Sign in again, and load this page again: “pawl console” prints an address that does.'}
        {connection === 'away' && (
          <ForeignText text={failure?.message ?? 'The database cannot be reached.'} />
        )}
      </p>
      {connection !== 'signed_out' && (
        <Button kind="quiet" onClick={() => liveFlow.reconnect()}>
          Try now
        </Button>
      )}
    </div>
  )
}
