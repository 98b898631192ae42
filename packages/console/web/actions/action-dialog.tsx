import { useState } from 'preact/hooks'
import type { ActionResult, AsJson, KeyRowSummary } from '../../src/api.js'
import { type ApiError, asApiError } from '../api/api-error.js'
import { post } from '../api/client.js'
import { toast } from '../components/announcer.js'
import { Button } from '../components/button.js'
import { Dialog } from '../components/dialog.js'
import { ForeignText } from '../components/foreign-text.js'
import { clock } from '../live/clock.js'
import { ActionFields } from './action-fields.js'
import { emptyForm, readForm } from './action-form.js'
import { ACTION_TEXT, type KeyAction } from './key-action.js'
import { PreviewPanel } from './preview-panel.js'
import { ReasonField } from './reason-field.js'
import { Refusal } from './refusal.js'
import { usePreview } from './use-preview.js'

interface ActionDialogProps {
  readonly action: KeyAction
  /** As the person sees it: it is done only to this revision. */
  readonly of: Pick<AsJson<KeyRowSummary>, 'keyId' | 'key' | 'scope' | 'revision'>
  readonly onClose: () => void
  /** The key may be another now: it was done, or somebody else was first. */
  readonly onChanged: () => void
}

/** Says what an action will do, asks why, and does it once. */
export function ActionDialog({ action, of, onClose, onChanged }: ActionDialogProps) {
  const { title, when, verb, isDanger } = ACTION_TEXT[action]
  const [entered, setEntered] = useState(() => emptyForm(clock.now()))
  const [reason, setReason] = useState('')
  const [isTold, setTold] = useState(false)
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError | null>(null)
  // The row in the list behind the dialog may be read again meanwhile: what was decided by stays.
  const [{ keyId, key, scope, revision }] = useState(of)
  const read = readForm(action, entered)
  const body = read.isRight ? { ...read.body, ifRevision: revision } : null
  const preview = usePreview(`requests/${keyId}/preview/${action}`, body)
  const isRefused = preview.isCurrent && preview.result?.type !== 'would_be_done'

  const close = () => {
    if (isBusy) return
    if (error?.code === 'refused') onChanged()
    onClose()
  }
  const act = async () => {
    setTold(true)
    if (body === null || reason.trim() === '' || isRefused) return
    setBusy(true)
    try {
      const { sentence } = await post<ActionResult>(`requests/${keyId}/${action}`, { ...body, reason })
      toast('done', sentence)
      onClose()
      onChanged()
    } catch (failure) {
      setError(asApiError(failure))
      setBusy(false)
    }
  }
  const footer = (
    <>
      <Button onClick={close}>{error?.code === 'refused' ? 'Close' : 'Cancel'}</Button>
      {error?.code !== 'refused' && (
        <Button
          type="submit"
          form="action-form"
          kind={isDanger ? 'danger' : 'primary'}
          isBusy={isBusy}
          disabled={isRefused}
        >
          {verb}
        </Button>
      )}
    </>
  )
  return (
    <Dialog title={title} onClose={close} footer={footer}>
      <p class="dialog-of">
        <ForeignText text={key} isShort class="id" /> of <ForeignText text={scope} isShort class="id" />
      </p>
      <p class="dialog-when">{when}</p>
      {error?.code === 'refused' ? (
        <Refusal error={error} />
      ) : (
        <form
          id="action-form"
          class="action-form"
          noValidate
          onSubmit={(event) => {
            event.preventDefault()
            void act()
          }}
        >
          <ActionFields
            action={action}
            entered={entered}
            read={read}
            isTold={isTold}
            onEnter={(change) => setEntered((before) => ({ ...before, ...change }))}
          />
          <PreviewPanel preview={preview} isFilledIn={read.isRight} />
          <ReasonField reason={reason} onReason={setReason} isTold={isTold} />
          {error !== null && <Refusal error={error} />}
        </form>
      )}
    </Dialog>
  )
}
