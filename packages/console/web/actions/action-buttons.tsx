import type { AsJson, KeyRowSummary } from '../../src/api.js'
import { useSession } from '../api/session.js'
import { Button } from '../components/button.js'
import { clock } from '../live/clock.js'
import { ACTION_TEXT, allowedActions, type KeyAction } from './key-action.js'

/** What has to be known of a key to act on it. */
export type ActedOn = Pick<
  AsJson<KeyRowSummary>,
  'keyId' | 'key' | 'scope' | 'revision' | 'status' | 'stuckReason' | 'call' | 'lease'
>

interface ActionButtonsProps {
  readonly of: ActedOn
  readonly onChoose: (action: KeyAction) => void
  /** In a list, where a strong color on every row would say nothing. */
  readonly isQuiet?: boolean
}

/**
 * A button for each thing that may be done to a key, the likeliest first. None for somebody who may look only. Of verdicts, none stands
 * out: which one is right is not for a page to suggest.
 */
export function ActionButtons({ of, onChoose, isQuiet = false }: ActionButtonsProps) {
  const session = useSession()
  const actions = allowedActions(of, clock.now())
  if (session?.canChange !== true || actions.length === 0) return null
  return (
    <div class="action-buttons" role="group" aria-label="Actions">
      {actions.map((action) => (
        <Button
          key={action}
          kind={action === 'retry' && !isQuiet ? 'primary' : 'plain'}
          aria-haspopup="dialog"
          onClick={() => onChoose(action)}
        >
          {ACTION_TEXT[action].name}…
        </Button>
      ))}
    </div>
  )
}
