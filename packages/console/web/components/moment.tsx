import { formatAge, formatDuration, spellAge } from '../format/duration.js'
import { formatMoment, formatPrecise, formatUtc } from '../format/moment.js'
import { clock } from '../live/clock.js'
import { useNow } from '../live/use-now.js'

/** A moment in the reader's zone; the title has it in UTC. */
export function Time({ at, isPrecise = false }: { readonly at: string; readonly isPrecise?: boolean }) {
  const date = new Date(at)
  const format = isPrecise ? formatPrecise : formatMoment
  return (
    <time class="moment" dateTime={at} title={formatUtc(date)}>
      {format(date, new Date(clock.now()))}
    </time>
  )
}

interface AgeProps {
  readonly since: string
  /** Where there is little room: `1d`, and not `1d 3h`. */
  readonly isShort?: boolean
}

/** How long ago a moment was, by the database's clock. It goes on. */
export function Age({ since, isShort = false }: AgeProps) {
  const ms = useNow() - Date.parse(since)
  const [first = ''] = formatAge(ms).split(' ')
  return (
    <time
      class="moment"
      dateTime={since}
      title={`since ${formatUtc(new Date(since))}`}
      aria-label={spellAge(ms)}
    >
      {isShort ? first : formatAge(ms)}
    </time>
  )
}

/** How long something took. */
export function Duration({ ms }: { readonly ms: number }) {
  return <span class="moment">{formatDuration(ms)}</span>
}
