import type { AsJson, DuplicatesAnswer } from '../../../src/api.js'
import { get } from '../../api/client.js'
import { useAnswer } from '../../api/use-answer.js'
import { Page, Section } from '../../components/page.js'
import { Empty, Failure, Loading, Outdated } from '../../components/states.js'
import { Table } from '../../components/table.js'
import { Time } from '../../components/moment.js'
import { formatCount } from '../../format/count.js'
import { Link } from '../../router/link.js'
import { Bars } from './bars.js'
import { minutesOf, totalOf } from './per-minute.js'
import { SCOPE_COLUMNS } from './scope-columns.js'

interface DuplicatesPageProps {
  readonly query: Readonly<Record<string, string>>
}

const WINDOWS = [
  { minutes: 15, name: '15 min' },
  { minutes: 60, name: '1 hour' },
  { minutes: 360, name: '6 hours' },
  { minutes: 1440, name: '24 hours' },
] as const
const DEFAULT_MINUTES = 60

/** Who sends the same request again, how often, and what they got. */
export function DuplicatesPage({ query }: DuplicatesPageProps) {
  const minutes = Number(query['minutes'] ?? DEFAULT_MINUTES)
  const { answer, error, reload } = useAnswer(`duplicates ${minutes}`, (signal) =>
    get<DuplicatesAnswer>('duplicates', { minutes }, signal),
  )
  return (
    <Page
      title="Duplicates"
      intro="Requests whose key was known already, by scope. A spike is a client that retries too eagerly; mismatches are a client with a bug, or somebody who tries keys."
      actions={<Windows minutes={minutes} />}
    >
      {answer === null && error === null && <Loading what="duplicates" />}
      {answer === null && error !== null && <Failure error={error} onRetry={reload} />}
      {answer !== null && error !== null && <Outdated error={error} onRetry={reload} />}
      {answer?.scopes.length === 0 && (
        <Empty title="No duplicate was counted in this time.">
          <p>
            Engines count them with the option <code>countDuplicates</code>, and write the counts every ten
            seconds.
          </p>
        </Empty>
      )}
      {answer !== null && answer.scopes.length > 0 && <Counted answer={answer} />}
    </Page>
  )
}

function Windows({ minutes: chosen }: { readonly minutes: number }) {
  return (
    <nav class="windows" aria-label="Time">
      {WINDOWS.map(({ minutes, name }) => (
        <Link
          key={minutes}
          to="duplicates"
          query={{ minutes }}
          aria-current={minutes === chosen ? 'page' : undefined}
        >
          {name}
        </Link>
      ))}
    </nav>
  )
}

function Counted({ answer }: { readonly answer: AsJson<DuplicatesAnswer> }) {
  const { from, to, scopes } = answer
  const all = minutesOf(answer)
  const sums = totalOf(scopes)
  return (
    <>
      <Section
        title="All scopes"
        aside={
          <>
            <Time at={from} /> to <Time at={to} />
          </>
        }
      >
        <dl class="sums">
          <Sum name="Replayed" count={sums.replayed} kind="replayed" what="got the stored answer" />
          <Sum
            name="In flight"
            count={sums.inFlight}
            kind="in-flight"
            what="came while the first was running"
          />
          <Sum
            name="Mismatched"
            count={sums.mismatched}
            kind="mismatched"
            what="came with another request under the same key"
          />
        </dl>
        <Bars minutes={all} label={`Duplicates per minute, ${formatCount(sums.total)} in all`} />
      </Section>
      <Section title="By scope" class="by-scope">
        <Table
          caption="Duplicates by scope"
          columns={SCOPE_COLUMNS}
          rows={scopes}
          rowKey={({ scope }) => scope}
          linkOf={({ scope }) => (scope === '' ? null : { to: 'requests', query: { scope } })}
        />
      </Section>
    </>
  )
}

interface SumProps {
  readonly name: string
  readonly count: number
  readonly kind: string
  readonly what: string
}

function Sum({ name, count, kind, what }: SumProps) {
  return (
    <div class={`sum sum-${kind}`}>
      <dt>{name}</dt>
      <dd class="sum-count">{formatCount(count)}</dd>
      <dd class="sum-what">{what}</dd>
    </div>
  )
}
