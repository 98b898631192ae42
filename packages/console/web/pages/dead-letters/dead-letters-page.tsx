import { Page } from '../../components/page.js'
import { Empty } from '../../components/states.js'

export function DeadLettersPage() {
  return (
    <Page title="Dead letters">
      <Empty title="Nothing here yet." />
    </Page>
  )
}
