import type { ComponentChildren } from 'preact'
import type { ApiError } from '../api/api-error.js'
import { Button } from './button.js'
import { ForeignText } from './foreign-text.js'
import { Icon } from './icon.js'

interface EmptyProps {
  readonly title: string
  readonly children?: ComponentChildren
}

/** Nothing is there, and that is not a mistake. */
export function Empty({ title, children }: EmptyProps) {
  return (
    <div class="state state-empty">
      <p class="state-title">{title}</p>
      {children !== undefined && <div class="state-text">{children}</div>}
    </div>
  )
}

/** Something is on its way. It appears after a moment only: most answers come sooner. */
export function Loading({ what }: { readonly what: string }) {
  return (
    <div class="state state-loading" role="status">
      <p>Loading {what}…</p>
    </div>
  )
}

/** What to do about each kind of failure, where there is something. */
const ADVICE: Readonly<Partial<Record<ApiError['code'], string>>> = {
  unauthenticated: 'Sign in again, and load this page again. “pawl console” prints an address that signs in.',
  database_away: 'It is tried again by itself. Requests are not held up by this page.',
  not_migrated: 'Afterwards, load this page again.',
  unreachable: 'It is tried again by itself while this page is open.',
}

interface FailureProps {
  readonly error: ApiError
  readonly onRetry?: (() => void) | undefined
}

/** It could not be shown, and why. */
export function Failure({ error, onRetry }: FailureProps) {
  const advice = ADVICE[error.code]
  return (
    <div class="state state-failure" role="alert">
      <Icon name="warning" />
      <div>
        <p class="state-title">
          <ForeignText text={error.message} />
        </p>
        {advice !== undefined && <p class="state-text">{advice}</p>}
        {onRetry !== undefined && (
          <Button icon="reload" onClick={onRetry}>
            Try again
          </Button>
        )}
      </div>
    </div>
  )
}

/** What is shown is of before, and why. */
export function Outdated({ error, onRetry }: FailureProps) {
  return (
    <div class="outdated" role="status">
      <Icon name="warning" />
      <p>
        <ForeignText text={error.message} />
      </p>
      {onRetry !== undefined && (
        <Button kind="quiet" onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  )
}
