import { Page } from '../../components/page.js'
import { Empty } from '../../components/states.js'

export function RequestsPage(_props: { readonly query: Readonly<Record<string, string>> }) {
  return (
    <Page title="Requests">
      <Empty title="Nothing here yet." />
    </Page>
  )
}
