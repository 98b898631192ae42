import type { EffectView } from '@pawl/core'
import type { AsJson, FindAnswer } from '../../../src/api.js'
import { get } from '../../api/client.js'
import { useAnswer } from '../../api/use-answer.js'
import { ForeignText } from '../../components/foreign-text.js'
import { Time } from '../../components/moment.js'
import { Page, Section } from '../../components/page.js'
import { Empty, Failure, Loading } from '../../components/states.js'
import { type Column, Table } from '../../components/table.js'
import { Link } from '../../router/link.js'
import { RequestTable } from './request-table.js'

type Effect = AsJson<EffectView>

const COLUMNS: readonly Column<Effect>[] = [
  {
    id: 'reference',
    title: 'Reference',
    isHeading: true,
    cell: ({ reference, providerKey }) => <ForeignText class="id" text={reference ?? providerKey} isShort />,
  },
  { id: 'key', title: 'Key', cell: ({ key }) => <ForeignText class="id" text={key} isShort /> },
  { id: 'scope', title: 'Scope', cell: ({ scope }) => <ForeignText text={scope} isShort /> },
  { id: 'phase', title: 'Phase', cell: ({ phase }) => <ForeignText text={phase} isShort /> },
  { id: 'at', title: 'At', align: 'end', cell: ({ at }) => <Time at={at} /> },
]

/** What a text may name: a key, a scope, an id, or what a provider calls an effect. */
export function FoundPage({ text }: { readonly text: string }) {
  const { answer, error, reload } = useAnswer(text, (signal) => get<FindAnswer>('find', { q: text }, signal))
  const found = answer?.found ?? []
  const keys = found.flatMap((each) => (each.kind === 'key' ? [each.key] : []))
  const effects = found.flatMap((each) => (each.kind === 'effect' ? [each.effect] : []))
  const scopes = found.flatMap((each) => (each.kind === 'scope' ? [each.scope] : []))
  return (
    <Page
      title="Search"
      intro={
        <>
          Keys, scopes, ids and provider references that are exactly <ForeignText class="id" text={text} />
        </>
      }
      actions={<Link to="requests">All requests</Link>}
    >
      {error !== null && <Failure error={error} onRetry={reload} />}
      {answer === null && error === null && <Loading what="what was found" />}
      {answer !== null && found.length === 0 && (
        <Empty title="Nothing is called that.">
          A key may have expired: the reaper deletes finished ones. Names have to be whole, with every
          character.
        </Empty>
      )}
      {keys.length > 0 && (
        <Section title="Requests">
          <RequestTable caption="Requests that were found" rows={keys} />
        </Section>
      )}
      {scopes.length > 0 && (
        <Section title="Scopes">
          <ul class="found-scopes">
            {scopes.map((scope) => (
              <li key={scope}>
                <Link to="requests" query={{ scope }}>
                  <ForeignText text={scope} />
                </Link>
              </li>
            ))}
          </ul>
        </Section>
      )}
      {effects.length > 0 && (
        <Section title="Effects at providers">
          <Table
            caption="Effects that were found"
            columns={COLUMNS}
            rows={effects}
            rowKey={({ effectId }) => effectId}
            linkOf={({ keyId }) => ({ to: `requests/${keyId}` })}
          />
        </Section>
      )}
      {answer !== null && answer.lookedBackTo !== null && (
        <p class="muted">
          Effects, and keys without their scope, were looked for back to <Time at={answer.lookedBackTo} />.
          With the indexes of the operations reference, all of them are.
        </p>
      )}
    </Page>
  )
}
