import { useState } from 'preact/hooks'
import type { RequestReport } from '../../../src/api.js'
import { type ApiError, asApiError } from '../../api/api-error.js'
import { post } from '../../api/client.js'
import { Button } from '../../components/button.js'
import { Dialog } from '../../components/dialog.js'
import { Field } from '../../components/field.js'
import { Failure } from '../../components/states.js'
import type { ReportNow } from './request-page.js'

/** As much as the record of interventions takes. */
const MAX_REASON_LENGTH = 1_000

interface RevealDialogProps {
  readonly keyId: string
  readonly onClose: () => void
  readonly onRevealed: (report: ReportNow) => void
}

/** Asks why somebody wants to see what a client sent. That they looked is recorded first. */
export function RevealDialog({ keyId, onClose, onRevealed }: RevealDialogProps) {
  const [reason, setReason] = useState('')
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError | null>(null)
  const reveal = () => {
    if (reason.trim() === '' || isBusy) return
    setBusy(true)
    setError(null)
    post<RequestReport>(`requests/${encodeURIComponent(keyId)}/reveal`, { reason: reason.trim() }).then(
      onRevealed,
      (failure: unknown) => {
        setError(asApiError(failure))
        setBusy(false)
      },
    )
  }
  return (
    <Dialog
      title="Reveal what was sent"
      onClose={onClose}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" icon="eye" isBusy={isBusy} disabled={reason.trim() === ''} onClick={reveal}>
            Reveal
          </Button>
        </>
      }
    >
      <form
        class="dialog-form"
        onSubmit={(event) => {
          event.preventDefault()
          reveal()
        }}
      >
        <p>
          Input, state, response, jobs and notes are shown on this page until you leave it. That you looked,
          and why, is written to the interventions before.
        </p>
        <Field label="Reason" hint="Others will read it, such as a number of a ticket.">
          {(control) => (
            <input
              {...control}
              type="text"
              autofocus
              required
              maxLength={MAX_REASON_LENGTH}
              autoComplete="off"
              value={reason}
              onInput={(event) => setReason(event.currentTarget.value)}
            />
          )}
        </Field>
        {error !== null && <Failure error={error} />}
      </form>
    </Dialog>
  )
}
