import { Page } from '../../components/page.js'
import { Empty } from '../../components/states.js'

export function ReconciliationPage(_props: { readonly query: Readonly<Record<string, string>> }) {
  return (
    <Page title="Reconciliation">
      <Empty title="Nothing here yet." />
    </Page>
  )
}
