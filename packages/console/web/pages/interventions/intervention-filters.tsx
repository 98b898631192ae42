import { useEffect, useState } from 'preact/hooks'
import { Field, type FieldControl } from '../../components/field.js'
import { MomentField } from '../../components/moment-field.js'
import { hrefOf, navigate } from '../../router/router.js'

/** Each null where all match. */
export interface InterventionFilter {
  readonly action: string | null
  readonly actor: string | null
  readonly scope: string | null
  readonly from: string | null
  readonly to: string | null
}

/** As they are recorded. */
const ACTIONS = [
  'unstick',
  'answer',
  'revoke',
  'extend',
  'forget',
  'erase',
  'requeue',
  'reveal',
  'reap',
] as const

/** They are in the address, so that they can be sent to somebody. */
export function InterventionFilters({ filter }: { readonly filter: InterventionFilter }) {
  const choose = (change: Partial<InterventionFilter>) =>
    navigate(hrefOf('interventions', { ...filter, ...change }), { replace: true })
  const text = (name: 'actor' | 'scope') => (control: FieldControl) => (
    <TextFilter
      control={control}
      value={filter[name] ?? ''}
      onChoose={(value) => choose({ [name]: value })}
    />
  )
  return (
    <div class="filters" role="search" aria-label="Filter interventions">
      <Field label="Action">
        {(control) => (
          <select
            {...control}
            value={filter.action ?? ''}
            onChange={({ currentTarget }) => choose({ action: currentTarget.value })}
          >
            <option value="">any</option>
            {ACTIONS.map((action) => (
              <option key={action} value={action}>
                {action}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field label="Who">{text('actor')}</Field>
      <Field label="Scope">{text('scope')}</Field>
      <MomentField label="From" at={filter.from} onChange={(from) => choose({ from })} />
      <MomentField label="To" at={filter.to} onChange={(to) => choose({ to })} />
    </div>
  )
}

interface TextFilterProps {
  readonly control: FieldControl
  readonly value: string
  readonly onChoose: (value: string) => void
}

/** What is typed stays while the page is drawn again, until it is chosen. */
function TextFilter({ control, value, onChoose }: TextFilterProps) {
  const [draft, setDraft] = useState(value)
  useEffect(() => setDraft(value), [value])
  return (
    <input
      {...control}
      type="text"
      autoComplete="off"
      spellcheck={false}
      value={draft}
      onInput={({ currentTarget }) => setDraft(currentTarget.value)}
      onChange={({ currentTarget }) => onChoose(currentTarget.value)}
    />
  )
}
