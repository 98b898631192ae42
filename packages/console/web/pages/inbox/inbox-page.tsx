import { Page } from '../../components/page.js'
import { Empty } from '../../components/states.js'

export function InboxPage() {
  return (
    <Page title="Inbox">
      <Empty title="Nothing here yet." />
    </Page>
  )
}
