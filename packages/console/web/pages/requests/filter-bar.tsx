import { useEffect, useState } from 'preact/hooks'
import { Field } from '../../components/field.js'
import { REASON_TEXT } from '../../format/stuck-reason.js'
import { visibleText } from '../../format/visible-text.js'
import type { FlowNow } from '../../live/live-flow.js'
import { AGES, type Filters, STATUS_TEXT, STATUSES, STUCK_REASONS } from './filters.js'

interface FilterBarProps {
  readonly filters: Filters
  /** Says what there is to choose from; null until it is known. */
  readonly flow: FlowNow | null
  readonly onChange: (filters: Filters) => void
}

interface Choice {
  readonly value: string
  readonly text: string
}

/** What to show. Each choice is in the address. */
export function FilterBar({ filters, flow, onChange }: FilterBarProps) {
  const change = (part: Partial<Filters>) => onChange({ ...filters, ...part })
  const { pipelines, versions, points } = choicesOf(filters, flow)
  return (
    <form class="filter-bar" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
      <Select
        label="Status"
        value={filters.status}
        choices={STATUSES.map((status) => ({ value: status, text: STATUS_TEXT[status] }))}
        onChoose={(status) => change({ status, ...(status !== 'stuck' && { stuckReason: '' }) })}
      />
      <Select
        label="Pipeline"
        value={filters.pipeline}
        choices={[{ value: '', text: 'All' }, ...pipelines]}
        onChoose={(pipeline) => change({ pipeline, version: '', point: '' })}
      />
      <Select
        label="Version"
        value={filters.version}
        isDisabled={filters.pipeline === ''}
        choices={[{ value: '', text: 'All' }, ...versions]}
        onChoose={(version) => change({ version })}
      />
      <Select
        label="Point"
        value={filters.point}
        isDisabled={filters.pipeline === ''}
        choices={[{ value: '', text: 'All' }, ...points]}
        onChoose={(point) => change({ point })}
      />
      <Select
        label="Stuck because"
        value={filters.stuckReason}
        choices={[
          { value: '', text: 'Any reason' },
          ...STUCK_REASONS.map((reason) => ({ value: reason, text: REASON_TEXT[reason].title })),
        ]}
        onChoose={(stuckReason) => change({ stuckReason, ...(stuckReason !== '' && { status: 'stuck' }) })}
      />
      <Select
        label="Older than"
        value={filters.olderThanMs}
        choices={[
          { value: '', text: 'Any age' },
          ...AGES.map(({ ms, text }) => ({ value: String(ms), text })),
        ]}
        onChoose={(olderThanMs) => change({ olderThanMs })}
      />
      <ScopeField scope={filters.scope} onChange={(scope) => change({ scope })} />
    </form>
  )
}

/** It filters when it is left or entered: a scope has to be whole. */
function ScopeField({
  scope,
  onChange,
}: {
  readonly scope: string
  readonly onChange: (scope: string) => void
}) {
  const [text, setText] = useState(scope)
  useEffect(() => setText(scope), [scope])
  const done = () => {
    if (text !== scope) onChange(text)
  }
  return (
    <Field label="Scope">
      {(control) => (
        <input
          {...control}
          type="text"
          value={text}
          placeholder="Exactly"
          autoComplete="off"
          spellcheck={false}
          onInput={(event) => setText(event.currentTarget.value)}
          onBlur={done}
          onKeyDown={(event) => {
            if (event.key === 'Enter') done()
          }}
        />
      )}
    </Field>
  )
}

interface SelectProps {
  readonly label: string
  readonly value: string
  readonly choices: readonly Choice[]
  readonly isDisabled?: boolean
  readonly onChoose: (value: string) => void
}

function Select({ label, value, choices, isDisabled = false, onChoose }: SelectProps) {
  // An address may name what nobody knows any more.
  const all = choices.some((choice) => choice.value === value)
    ? choices
    : [...choices, { value, text: visibleText(value) }]
  return (
    <Field label={label}>
      {(control) => (
        <select
          {...control}
          value={value}
          disabled={isDisabled}
          onChange={(event) => onChoose(event.currentTarget.value)}
        >
          {all.map((choice) => (
            <option key={choice.value} value={choice.value}>
              {choice.text}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}

function choicesOf({ pipeline, version }: Filters, flow: FlowNow | null) {
  const all = flow?.pipelines ?? []
  const named = all.filter(({ name }) => name === pipeline)
  const shown = version === '' ? named : named.filter((each) => String(each.version) === version)
  const points = shown.flatMap((each) => each.points.map(({ point }) => point))
  return {
    pipelines: unique(all.map(({ name }) => name)).map(asChoice),
    versions: named.map((each) => asChoice(String(each.version))),
    points: unique(points)
      .filter((point) => point !== 'finished')
      .map(asChoice),
  }
}

function unique(texts: readonly string[]): string[] {
  return [...new Set(texts)]
}

function asChoice(value: string): Choice {
  return { value, text: visibleText(value) }
}
