import type { AsJson, RequestReport } from '../../src/api.js'
import { ActionButtons } from './action-buttons.js'
import { useActionDialog } from './use-action-dialog.js'

interface RequestActionsProps {
  readonly report: AsJson<RequestReport>
  /** Called when something was done to the key, so that it is read again. */
  readonly onChanged: () => void
}

/** What a person may do to a request. */
export function RequestActions({ report: { key }, onChanged }: RequestActionsProps) {
  const { choose, dialog } = useActionDialog(onChanged)
  return (
    <>
      <ActionButtons of={key} onChoose={(action) => choose(key, action)} />
      {dialog}
    </>
  )
}
