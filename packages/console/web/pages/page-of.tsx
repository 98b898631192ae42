import type { ComponentChildren } from 'preact'
import type { Place } from '../router/router.js'
import { DeadLettersPage } from './dead-letters/dead-letters-page.js'
import { DuplicatesPage } from './duplicates/duplicates-page.js'
import { InboxPage } from './inbox/inbox-page.js'
import { InterventionsPage } from './interventions/interventions-page.js'
import { MapPage } from './map/map-page.js'
import { NotFoundPage } from './not-found-page.js'
import { ReconciliationPage } from './reconciliation/reconciliation-page.js'
import { RequestPage } from './request/request-page.js'
import { RequestsPage } from './requests/requests-page.js'

/** The page at an address. */
export function pageOf({ path, query }: Place): ComponentChildren {
  const [name = '', id, ...more] = path.split('/')
  if (name === 'requests' && id !== undefined && more.length === 0) return <RequestPage key={id} keyId={id} />
  if (id !== undefined) return <NotFoundPage />
  switch (name) {
    case '':
      return <MapPage />
    case 'inbox':
      return <InboxPage />
    case 'requests':
      return <RequestsPage query={query} />
    case 'dead':
      return <DeadLettersPage />
    case 'duplicates':
      return <DuplicatesPage query={query} />
    case 'reconciliation':
      return <ReconciliationPage query={query} />
    case 'interventions':
      return <InterventionsPage query={query} />
    default:
      return <NotFoundPage />
  }
}
