import { Field } from '../components/field.js'

/** As long as the record takes. */
const MAX_LENGTH = 2_000

interface ReasonFieldProps {
  readonly reason: string
  readonly onReason: (reason: string) => void
  /** Whether to say that it is missing. */
  readonly isTold: boolean
}

/** Why somebody does it, for the record. */
export function ReasonField({ reason, onReason, isTold }: ReasonFieldProps) {
  const error = isTold && reason.trim() === '' ? 'Say why, for whoever reads it next year.' : null
  return (
    <Field label="Reason" hint="It is recorded with your name, and kept." error={error}>
      {(control) => (
        <textarea
          {...control}
          class="input input-reason"
          rows={2}
          maxLength={MAX_LENGTH}
          required
          value={reason}
          onInput={({ currentTarget }) => onReason(currentTarget.value)}
        />
      )}
    </Field>
  )
}
