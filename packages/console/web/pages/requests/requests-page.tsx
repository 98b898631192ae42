import { useEffect, useRef } from 'preact/hooks'
import { Button } from '../../components/button.js'
import { Page } from '../../components/page.js'
import { Empty, Failure, Outdated } from '../../components/states.js'
import { formatCount } from '../../format/count.js'
import { useLiveFlow } from '../../live/live-flow.js'
import { hrefOf, navigate } from '../../router/router.js'
import { FilterBar } from './filter-bar.js'
import { type Filters, queryOf, readFilters } from './filters.js'
import { FoundPage } from './found-page.js'
import { RequestTable } from './request-table.js'
import { useRequestPages } from './use-request-pages.js'

interface RequestsPageProps {
  readonly query: Readonly<Record<string, string>>
}

/** What a search found, or the requests that a filter lets through. */
export function RequestsPage({ query }: RequestsPageProps) {
  const text = query['q'] ?? ''
  return text === '' ? <ListPage query={query} /> : <FoundPage key={text} text={text} />
}

/** The address says it, so that it can be sent to others. */
function show(filters: Filters): void {
  navigate(hrefOf('requests', queryOf(filters)))
}

/** How far from its end the list asks for more. */
const AHEAD_PX = 1_200

function ListPage({ query }: RequestsPageProps) {
  const { flow } = useLiveFlow()
  const filters = readFilters(query)
  const pages = useRequestPages(filters)
  const { rows, error, isLoading, hasMore, isFull, more, reload } = pages
  const end = useRef<HTMLDivElement>(null)
  const latest = useRef(more)
  latest.current = more
  useEffect(() => {
    if (end.current === null || !hasMore || isLoading) return
    const observer = new IntersectionObserver(
      ([entry]) => {
        if (entry?.isIntersecting === true) latest.current()
      },
      { rootMargin: `${AHEAD_PX}px` },
    )
    observer.observe(end.current)
    return () => observer.disconnect()
  }, [hasMore, isLoading])

  const isFiltered = Object.keys(queryOf(filters)).some((name) => queryOf(filters)[name] !== '')
  return (
    <Page
      title="Requests"
      intro={filters.status === 'finished' ? 'First to expire first.' : 'Oldest first.'}
      actions={
        <Button icon="reload" isBusy={isLoading && rows !== null} onClick={reload}>
          Refresh
        </Button>
      }
    >
      <div class="requests">
        <FilterBar filters={filters} flow={flow} onChange={show} />
        {error !== null && rows !== null && <Outdated error={error} onRetry={reload} />}
        {error !== null && rows === null ? (
          <Failure error={error} onRetry={reload} />
        ) : rows?.length === 0 ? (
          <Empty title={isFiltered ? 'No request matches.' : 'Nothing is unfinished.'}>
            {isFiltered ? (
              <Button onClick={() => navigate(hrefOf('requests'))}>Clear the filters</Button>
            ) : (
              'Those that are running, resting or stuck appear here. Choose “Finished” to see what went before.'
            )}
          </Empty>
        ) : (
          <>
            <RequestTable caption="Requests" rows={rows} isWindowed />
            <div ref={end} class="list-end" role="status">
              {rows !== null && !hasMore && `${formatCount(rows.length)}${isFull ? '+' : ''} shown`}
              {rows !== null && hasMore && `${formatCount(rows.length)} shown, more follow`}
              {isFull && ', which is as many as this page takes: choose a filter.'}
            </div>
          </>
        )}
      </div>
    </Page>
  )
}
