import { Page } from '../components/page.js'
import { Empty } from '../components/states.js'
import { Link } from '../router/link.js'

export function NotFoundPage() {
  return (
    <Page title="No such page">
      <Empty title="There is nothing at this address.">
        <Link to="">Go to the map</Link>
      </Empty>
    </Page>
  )
}
