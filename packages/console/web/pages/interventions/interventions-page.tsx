import type { InterventionList } from '../../../src/api.js'
import { apiUrl, get } from '../../api/client.js'
import { usePages } from '../../api/use-pages.js'
import { Button } from '../../components/button.js'
import { Page } from '../../components/page.js'
import { Empty, Failure, Outdated } from '../../components/states.js'
import { Table } from '../../components/table.js'
import { COLUMNS } from './columns.js'
import { InterventionFilters, type InterventionFilter } from './intervention-filters.js'

interface InterventionsPageProps {
  readonly query: Readonly<Record<string, string>>
}

/** Who did what by hand, and why. */
export function InterventionsPage({ query }: InterventionsPageProps) {
  const filter = filterOf(query)
  const { rows, error, isLoading, hasMore, more, reload } = usePages(
    `interventions ${JSON.stringify(filter)}`,
    (after, signal) => get<InterventionList>('interventions', { ...filter, after }, signal),
  )
  const isFiltered = Object.values(filter).some((value) => value !== null)
  return (
    <Page
      title="Interventions"
      intro="What people did by hand, newest first. It is recorded before it takes effect, and nobody can change it here."
      actions={
        <>
          <a class="button button-plain" href={apiUrl('interventions.csv', { ...filter })} download="">
            Export CSV
          </a>
          <a class="button button-plain" href={apiUrl('interventions.json', { ...filter })} download="">
            Export JSON
          </a>
        </>
      }
    >
      <InterventionFilters filter={filter} />
      {rows === null && error !== null && <Failure error={error} onRetry={reload} />}
      {rows !== null && error !== null && <Outdated error={error} onRetry={reload} />}
      {rows?.length === 0 && (
        <Empty title={isFiltered ? 'Nothing matches.' : 'Nobody has done anything by hand.'}>
          {isFiltered && <p>Names are compared exactly as they are written.</p>}
        </Empty>
      )}
      {(rows === null ? error === null : rows.length > 0) && (
        <div class="interventions">
          <Table
            caption="Interventions"
            columns={COLUMNS}
            rows={rows}
            rowKey={({ id }) => id}
            linkOf={({ keyId }) => (keyId === null ? null : { to: `requests/${keyId}` })}
            isWindowed
          />
          {hasMore && (
            <Button class="more" isBusy={isLoading} onClick={more}>
              Show older ones
            </Button>
          )}
        </div>
      )}
    </Page>
  )
}

function filterOf(query: Readonly<Record<string, string>>): InterventionFilter {
  const { action = null, actor = null, scope = null, from = null, to = null } = query
  return { action, actor, scope, from, to }
}
