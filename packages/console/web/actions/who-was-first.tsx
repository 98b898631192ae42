import type { AsJson, ErrorAnswer } from '../../src/api.js'
import { ForeignText } from '../components/foreign-text.js'
import { Age } from '../components/moment.js'

type By = NonNullable<AsJson<ErrorAnswer>['error']['by']>

/** What somebody else did to the key meanwhile. */
export function WhoWasFirst({ by }: { readonly by: By }) {
  return (
    <p class="who-was-first">
      <strong>
        <ForeignText text={by.actor} />
      </strong>{' '}
      was first: <span class="action-name">{by.action}</span>, <Age since={by.at} /> ago
      {by.reason !== null && (
        <>
          . Reason:{' '}
          <q class="reason">
            <ForeignText text={by.reason} />
          </q>
        </>
      )}
    </p>
  )
}
