import { type Condition, CONDITION_TEXT } from '../format/condition.js'

/** A shape for each, so that no color is needed to tell them apart. */
const SHAPES: Readonly<Record<Condition, string>> = {
  held: 'M6 1a5 5 0 1 1 0 10A5 5 0 0 1 6 1Z',
  backing_off: 'M6 1.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9ZM6 3.5V6l2 1.5',
  unattended: 'M6 1.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9Z',
  stuck: 'M6 .5 11.5 6 6 11.5.5 6Z',
  finished: 'm1.5 6.5 3 3 6-7',
}

/** The mark of a condition alone: beside a word. */
export function ConditionMark({ condition }: { readonly condition: Condition }) {
  return (
    <svg class={`mark mark-${condition}`} viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
      <path d={SHAPES[condition]} />
    </svg>
  )
}

interface BadgeProps {
  readonly condition: Condition
  /** Such as why it is stuck. */
  readonly detail?: string | null
}

/** The condition of a key: a shape and a word. */
export function Badge({ condition, detail = null }: BadgeProps) {
  const { word, meaning } = CONDITION_TEXT[condition]
  return (
    <span class={`badge badge-${condition}`} title={meaning}>
      <ConditionMark condition={condition} />
      <span>
        {word}
        {detail !== null && <span class="badge-detail">: {detail.replaceAll('_', ' ')}</span>}
      </span>
    </span>
  )
}
