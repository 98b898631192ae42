import type { ApiError } from '../api/api-error.js'
import { ForeignText } from '../components/foreign-text.js'
import { Icon } from '../components/icon.js'
import { WhoWasFirst } from './who-was-first.js'

/** It was not done, and why; of a race, who was first. */
export function Refusal({ error }: { readonly error: ApiError }) {
  return (
    <div class="refusal" role="alert">
      <Icon name="warning" />
      <div>
        <p class="refusal-title">
          {error.code === 'unreachable'
            ? 'Nobody knows whether it was done: look at the request again.'
            : 'Nothing was changed.'}
        </p>
        <p>
          <ForeignText text={error.message} />
        </p>
        {error.by !== null && <WhoWasFirst by={error.by} />}
      </div>
    </div>
  )
}
