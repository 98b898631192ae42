import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { ActedOn } from './action-buttons.js'
import { ActionDialog } from './action-dialog.js'
import type { KeyAction } from './key-action.js'

interface ActionDialogOfPage {
  readonly choose: (of: ActedOn, action: KeyAction) => void
  /** To be put on the page. A key may leave its list while somebody is still writing a reason, so it is not in the list's row. */
  readonly dialog: ComponentChildren
}

/** The one dialog of a page in which actions on keys are taken. */
export function useActionDialog(onChanged: () => void): ActionDialogOfPage {
  const [open, setOpen] = useState<{ readonly of: ActedOn; readonly action: KeyAction } | null>(null)
  return {
    choose: (of, action) => setOpen({ of, action }),
    dialog:
      open === null ? null : (
        <ActionDialog action={open.action} of={open.of} onClose={() => setOpen(null)} onChanged={onChanged} />
      ),
  }
}
