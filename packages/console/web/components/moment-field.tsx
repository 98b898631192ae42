import { fromLocalInput, toLocalInput } from '../format/local-input.js'
import { Field } from './field.js'

interface MomentFieldProps {
  readonly label: string
  /** An ISO string; null for none. */
  readonly at: string | null
  readonly onChange: (at: string | null) => void
}

/** A day and a time, in the reader's zone. */
export function MomentField({ label, at, onChange }: MomentFieldProps) {
  return (
    <Field label={label}>
      {(control) => (
        <input
          {...control}
          class="moment-input"
          type="datetime-local"
          value={at === null ? '' : toLocalInput(new Date(at))}
          onChange={({ currentTarget }) =>
            onChange(fromLocalInput(currentTarget.value)?.toISOString() ?? null)
          }
        />
      )}
    </Field>
  )
}
