import { Page } from '../../components/page.js'
import { Empty } from '../../components/states.js'

export function RequestPage(_props: { readonly keyId: string }) {
  return (
    <Page title="Request">
      <Empty title="Nothing here yet." />
    </Page>
  )
}
