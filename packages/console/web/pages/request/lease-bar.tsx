import { formatAge, formatDuration, spellAge } from '../../format/duration.js'
import { formatUtc } from '../../format/moment.js'
import { useNow } from '../../live/use-now.js'
import type { ReportNow } from './request-page.js'

/** The default of a phase, where its definition is not known. */
const DEFAULT_LEASE_MS = 30_000

/** How long its holder has left, by the database's clock. If the holder died, it runs out, and another takes over. */
export function LeaseBar({ report: { key, pipeline } }: { readonly report: ReportNow }) {
  const now = useNow()
  if (key.lease === null || key.status !== 'running') return null
  const until = Date.parse(key.lease.until)
  const leftMs = until - now
  const names = pipeline?.phases.map(({ name }) => name) ?? []
  const phase = pipeline?.phases[names.indexOf(key.recoveryPoint) + 1]
  const wholeMs = Math.max(phase?.leaseMs ?? DEFAULT_LEASE_MS, leftMs)
  const share = Math.max(0, Math.min(1, leftMs / wholeMs))
  const text =
    leftMs > 0
      ? `The lease of fence ${key.fence} runs out in ${formatAge(leftMs)}, unless its holder renews it.`
      : `The lease of fence ${key.fence} ran out ${formatAge(-leftMs)} ago: its holder stopped, or lost its way to the database.`
  return (
    <div class={`lease ${leftMs > 0 ? '' : 'lease-over'}`} title={`until ${formatUtc(new Date(until))}`}>
      <div
        class="lease-bar"
        role="meter"
        aria-label="Lease"
        aria-valuemin={0}
        aria-valuemax={Math.round(wholeMs / 1_000)}
        aria-valuenow={Math.max(0, Math.round(leftMs / 1_000))}
        aria-valuetext={leftMs > 0 ? `${spellAge(leftMs)} left` : 'over'}
      >
        <span class="lease-left" style={{ transform: `scaleX(${share.toFixed(4)})` }} />
      </div>
      <p>
        {text} {leftMs > 0 && <span class="muted">It is {formatDuration(wholeMs)} long.</span>}
      </p>
    </div>
  )
}
