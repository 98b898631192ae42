import { useState } from 'preact/hooks'
import { type ApiError, asApiError } from '../api/api-error.js'
import { post } from '../api/client.js'
import { toast } from '../components/announcer.js'
import { Button } from '../components/button.js'
import { Dialog } from '../components/dialog.js'
import { ForeignText } from '../components/foreign-text.js'
import { counted } from '../format/count.js'
import { PreviewPanel } from './preview-panel.js'
import { ReasonField } from './reason-field.js'
import { Refusal } from './refusal.js'
import { usePreview } from './use-preview.js'

/** Which dead jobs: one, or all of a name. */
export type Requeued =
  | { readonly name: string; readonly jobId: string }
  | { readonly name: string; readonly jobId: null; readonly count: string }

interface RequeueDialogProps {
  readonly of: Requeued
  readonly onClose: () => void
  readonly onChanged: () => void
}

/** Says what delivering dead jobs again means, asks why, and does it. */
export function RequeueDialog({ of, onClose, onChanged }: RequeueDialogProps) {
  const [reason, setReason] = useState('')
  const [isTold, setTold] = useState(false)
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError | null>(null)
  const isOne = of.jobId !== null
  const which = isOne ? { jobIds: [of.jobId] } : { name: of.name }
  const preview = usePreview('dead/preview', which)
  const requeue = async () => {
    setTold(true)
    if (reason.trim() === '') return
    setBusy(true)
    try {
      const { requeued } = await post<{ readonly requeued: number }>('dead/requeue', { ...which, reason })
      if (requeued > 0) toast('done', `Requeued ${counted(requeued, 'job')}. A relay delivers them next.`)
      else toast('failed', 'Nothing was requeued: somebody else was first.')
      onClose()
      onChanged()
    } catch (failure) {
      setError(asApiError(failure))
      setBusy(false)
    }
  }
  return (
    <Dialog
      title={isOne ? 'Requeue this job' : 'Requeue all of a name'}
      onClose={() => {
        if (!isBusy) onClose()
      }}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" form="requeue-form" kind="primary" isBusy={isBusy}>
            Requeue
          </Button>
        </>
      }
    >
      <p class="dialog-of">
        {of.jobId === null ? <>All {of.count} of </> : 'One job of '}
        <ForeignText text={of.name} isShort class="id" />
      </p>
      <form
        id="requeue-form"
        class="action-form"
        noValidate
        onSubmit={(event) => {
          event.preventDefault()
          void requeue()
        }}
      >
        <PreviewPanel preview={preview} isFilledIn />
        <p class="dialog-when">Fix the cause first, or {isOne ? 'it dies' : 'they die'} again.</p>
        <ReasonField reason={reason} onReason={setReason} isTold={isTold} />
        {error !== null && <Refusal error={error} />}
      </form>
    </Dialog>
  )
}
