import type { ComponentChildren } from 'preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import { Button } from './button.js'

interface DialogProps {
  readonly title: string
  /** Called by Escape, the cross and a click beside it. */
  readonly onClose: () => void
  readonly children: ComponentChildren
  /** Buttons, the one that does it last. */
  readonly footer?: ComponentChildren
}

/** Asks something, over the page. Render it to open it; the focus goes back to where it was when it goes away. */
export function Dialog({ title, onClose, children, footer }: DialogProps) {
  const ref = useRef<HTMLDialogElement>(null)
  const titleId = useId()
  // At once, when the page is drawn: between the two, a key that is pressed would go nowhere.
  useLayoutEffect(() => {
    const before = document.activeElement
    const dialog = ref.current
    dialog?.showModal()
    return () => {
      // While it is open, nothing behind it can have the focus.
      dialog?.close()
      // What opened it may go away with it. Then one goes on from the beginning of the page.
      const isThere = before instanceof HTMLElement && before.isConnected && before !== document.body
      const to = isThere ? before : document.querySelector<HTMLElement>('#page')
      to?.focus({ preventScroll: true })
    }
  }, [])
  return (
    // A click on the backdrop comes from the dialog itself. The keyboard has Escape.
    <dialog
      ref={ref}
      class="dialog"
      aria-labelledby={titleId}
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
      onClick={(event) => {
        if (event.target === ref.current) onClose()
      }}
    >
      <div class="dialog-inside">
        <header class="dialog-head">
          <h2 id={titleId}>{title}</h2>
          <Button kind="quiet" icon="close" aria-label="Close" onClick={onClose} />
        </header>
        <div class="dialog-body">{children}</div>
        {footer !== undefined && <footer class="dialog-foot">{footer}</footer>}
      </div>
    </dialog>
  )
}
