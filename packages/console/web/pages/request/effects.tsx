import { Identifier } from '../../components/identifier.js'
import { ForeignText } from '../../components/foreign-text.js'
import { Time } from '../../components/moment.js'
import { Section } from '../../components/page.js'
import { type Column, Table } from '../../components/table.js'
import type { ReportNow } from './request-page.js'

type EffectNow = ReportNow['effects'][number]

const COLUMNS: readonly Column<EffectNow>[] = [
  {
    id: 'effect',
    title: 'Effect',
    isHeading: true,
    cell: ({ effectName }) => <ForeignText text={effectName} isShort />,
  },
  {
    id: 'reference',
    title: 'Reference',
    cell: ({ reference }) =>
      reference === null ? (
        <span class="muted">none</span>
      ) : (
        <Identifier text={reference} what="reference" isShort />
      ),
  },
  {
    id: 'provider-key',
    title: 'Provider key',
    cell: ({ providerKey }) => <Identifier text={providerKey} what="provider key" isShort />,
  },
  {
    id: 'at',
    title: 'Settled',
    align: 'end',
    cell: ({ at, undoneAt }) =>
      undoneAt === null ? (
        <Time at={at} />
      ) : (
        <>
          undone <Time at={undoneAt} />
        </>
      ),
  },
]

/** What it did at providers. */
export function Effects({ effects }: { readonly effects: ReportNow['effects'] }) {
  if (effects.length === 0) return null
  return (
    <Section title="Effects at providers" class="request-effects">
      <Table
        caption="Effects at providers"
        columns={COLUMNS}
        rows={effects}
        rowKey={({ effectId }) => effectId}
      />
    </Section>
  )
}
