import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'

/** What a control in a field needs to have. */
export interface FieldControl {
  readonly id: string
  readonly 'aria-describedby': string | undefined
  readonly 'aria-invalid': true | undefined
}

interface FieldProps {
  readonly label: string
  readonly hint?: ComponentChildren
  /** What is wrong with what was entered; null if nothing is. */
  readonly error?: string | null
  /** The control, with the attributes that it is given. */
  readonly children: (control: FieldControl) => ComponentChildren
}

/** A control with its label, a hint, and what is wrong with it. */
export function Field({ label, hint, error = null, children }: FieldProps) {
  const id = useId()
  const hintId = `${id}-hint`
  const errorId = `${id}-error`
  const describedBy = [hint === undefined ? '' : hintId, error === null ? '' : errorId].filter(
    (each) => each !== '',
  )
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({
        id,
        'aria-describedby': describedBy.length === 0 ? undefined : describedBy.join(' '),
        'aria-invalid': error === null ? undefined : true,
      })}
      {hint !== undefined && (
        <p class="field-hint" id={hintId}>
          {hint}
        </p>
      )}
      {error !== null && (
        <p class="field-error" id={errorId}>
          {error}
        </p>
      )}
    </div>
  )
}
