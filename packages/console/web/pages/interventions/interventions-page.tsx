import { Page } from '../../components/page.js'
import { Empty } from '../../components/states.js'

export function InterventionsPage(_props: { readonly query: Readonly<Record<string, string>> }) {
  return (
    <Page title="Interventions">
      <Empty title="Nothing here yet." />
    </Page>
  )
}
