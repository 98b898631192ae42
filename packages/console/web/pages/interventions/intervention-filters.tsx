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
    <input
      {...control}
      type="text"
      autoComplete="off"
      spellcheck={false}
      value={filter[name] ?? ''}
      onChange={({ currentTarget }) => choose({ [name]: currentTarget.value })}
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
