import { Page } from '../../components/page.js'
import { Empty } from '../../components/states.js'

export function MapPage() {
  return (
    <Page title="Map">
      <Empty title="Nothing here yet." />
    </Page>
  )
}
