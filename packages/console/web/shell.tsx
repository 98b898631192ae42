import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { useSession } from './api/session.js'
import { Announcer } from './components/announcer.js'
import { ConnectionBanner, ConnectionMark } from './components/connection-mark.js'
import { Dialog } from './components/dialog.js'
import { ForeignText } from './components/foreign-text.js'
import { Icon, type IconName } from './components/icon.js'
import { SearchBox } from './components/search-box.js'
import { ThemeSwitch } from './components/theme-switch.js'
import { formatCompact } from './format/count.js'
import type { FlowNow, LiveState } from './live/live-flow.js'
import { Link } from './router/link.js'
import { usePlace } from './router/router.js'

interface Entry {
  readonly path: string
  readonly name: string
  readonly icon: IconName
  /** How many there need somebody. */
  readonly count?: (flow: FlowNow) => number
}

/** The pages, in the order of a day: what is going on, what needs me, what went before. */
const ENTRIES: readonly Entry[] = [
  { path: '', name: 'Map', icon: 'map' },
  { path: 'inbox', name: 'Inbox', icon: 'inbox', count: stuckCount },
  { path: 'requests', name: 'Requests', icon: 'requests' },
  { path: 'dead', name: 'Dead letters', icon: 'dead', count: ({ jobs }) => jobs.dead.count },
  { path: 'duplicates', name: 'Duplicates', icon: 'duplicates' },
  { path: 'reconciliation', name: 'Reconciliation', icon: 'reconciliation' },
  { path: 'interventions', name: 'Interventions', icon: 'interventions' },
]
/** As many as fit under a narrow page; the others are behind "More". */
const BAR_ENTRIES = 4

/** What is around every page. */
export function Shell({
  live,
  children,
}: {
  readonly live: LiveState
  readonly children: ComponentChildren
}) {
  const session = useSession()
  const { path } = usePlace()
  const [isMoreOpen, setMoreOpen] = useState(false)
  useSearchKey()
  const link = (entry: Entry) => <NavLink key={entry.path} entry={entry} path={path} flow={live.flow} />
  return (
    <>
      <a class="skip-link" href="#page">
        Skip to the page
      </a>
      <div class="shell">
        <header class="bar">
          <Link class="brand" to="" aria-label="Pawl, the map">
            <PawlMark />
            <span>Pawl</span>
          </Link>
          <SearchBox />
          <ConnectionMark state={live} />
        </header>
        <nav class="nav" aria-label="Pages">
          <ul>{ENTRIES.map(link)}</ul>
          <div class="nav-foot">
            <ThemeSwitch />
            <dl class={`who ${session === null ? 'who-unknown' : ''}`}>
              <dt>Signed in as</dt>
              <dd>
                <ForeignText text={session?.actor ?? '…'} isShort />
                {session?.canChange === false && <span class="who-note">may look only</span>}
              </dd>
              <dt>Schema</dt>
              <dd>
                <ForeignText text={session?.schema ?? '…'} isShort />
              </dd>
            </dl>
          </div>
        </nav>
        <main id="page" class="main" tabIndex={-1}>
          <ConnectionBanner state={live} />
          {children}
        </main>
        <nav class="bottom-nav" aria-label="Pages">
          <ul>
            {ENTRIES.slice(0, BAR_ENTRIES).map(link)}
            <li>
              <button type="button" class="nav-link" aria-haspopup="dialog" onClick={() => setMoreOpen(true)}>
                <Icon name="more" />
                <span>More</span>
              </button>
            </li>
          </ul>
        </nav>
      </div>
      {isMoreOpen && (
        <Dialog title="More" onClose={() => setMoreOpen(false)}>
          <nav class="more-nav" aria-label="More pages">
            <ul>
              {ENTRIES.slice(BAR_ENTRIES).map((entry) => (
                <NavLink
                  key={entry.path}
                  entry={entry}
                  path={path}
                  flow={live.flow}
                  onFollow={() => setMoreOpen(false)}
                />
              ))}
            </ul>
          </nav>
          <ThemeSwitch />
          {session !== null && (
            <p class="who-line">
              <ForeignText text={session.actor} />
              {!session.canChange && ' (may look only)'}
            </p>
          )}
        </Dialog>
      )}
      <Announcer />
    </>
  )
}

interface NavLinkProps {
  readonly entry: Entry
  readonly path: string
  readonly flow: FlowNow | null
  readonly onFollow?: () => void
}

function NavLink({ entry, path, flow, onFollow }: NavLinkProps) {
  const isHere = entry.path === '' ? path === '' : path === entry.path || path.startsWith(`${entry.path}/`)
  const count = flow === null ? 0 : (entry.count?.(flow) ?? 0)
  return (
    <li>
      <Link class="nav-link" to={entry.path} aria-current={isHere ? 'page' : undefined} onFollow={onFollow}>
        <Icon name={entry.icon} />
        <span>{entry.name}</span>
        {count > 0 && (
          <span class="nav-count">
            {formatCompact(count)}
            <span class="unseen"> need somebody</span>
          </span>
        )}
      </Link>
    </li>
  )
}

function PawlMark() {
  return (
    <svg class="brand-mark" viewBox="0 0 24 24" width="24" height="24" aria-hidden="true">
      <path d="M2 19h20M3.5 19V12l6 7v-7l6 7v-7l5 7" />
      <path class="brand-pawl" d="m20 4-4.5 7.5" />
    </svg>
  )
}

function stuckCount(flow: FlowNow): number {
  return flow.pipelines.reduce(
    (sum, { points }) => sum + points.reduce((inside, { stuck }) => inside + stuck, 0),
    0,
  )
}

/** `/` goes to the search, from wherever nothing is being typed. */
function useSearchKey(): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const { target } = event
      const isTyped =
        target instanceof HTMLInputElement ||
        target instanceof HTMLTextAreaElement ||
        target instanceof HTMLSelectElement ||
        document.querySelector('dialog[open]') !== null
      if (event.key !== '/' || isTyped || event.metaKey || event.ctrlKey || event.altKey) return
      event.preventDefault()
      document.querySelector<HTMLInputElement>('#search')?.focus()
    }
    window.addEventListener('keydown', onKey)
    return () => window.removeEventListener('keydown', onKey)
  }, [])
}
