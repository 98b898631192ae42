import { Page } from '../../components/page.js'
import { Empty } from '../../components/states.js'

export function DuplicatesPage(_props: { readonly query: Readonly<Record<string, string>> }) {
  return (
    <Page title="Duplicates">
      <Empty title="Nothing here yet." />
    </Page>
  )
}
