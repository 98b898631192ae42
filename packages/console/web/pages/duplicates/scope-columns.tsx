import type { AsJson, DuplicatesAnswer } from '../../../src/api.js'
import { ForeignText } from '../../components/foreign-text.js'
import type { Column } from '../../components/table.js'
import { formatCount } from '../../format/count.js'
import { sumOf } from './per-minute.js'

type Scope = AsJson<DuplicatesAnswer>['scopes'][number]

export const SCOPE_COLUMNS: readonly Column<Scope>[] = [
  {
    id: 'scope',
    title: 'Scope',
    isHeading: true,
    cell: ({ scope }) =>
      scope === '' ? (
        <span class="muted">all others together</span>
      ) : (
        <ForeignText text={scope} isShort class="id" />
      ),
  },
  { id: 'total', title: 'Duplicates', align: 'end', cell: (scope) => formatCount(sumOf(scope)) },
  { id: 'replayed', title: 'Replayed', align: 'end', cell: ({ replayed }) => formatCount(replayed) },
  { id: 'in-flight', title: 'In flight', align: 'end', cell: ({ inFlight }) => formatCount(inFlight) },
  {
    id: 'mismatched',
    title: 'Mismatched',
    align: 'end',
    cell: ({ mismatched }) => (
      <span class={mismatched > 0 ? 'count-mismatched' : ''}>{formatCount(mismatched)}</span>
    ),
  },
  {
    id: 'pipelines',
    title: 'Pipelines',
    cell: ({ byPipeline }) => (
      <ForeignText
        text={byPipeline.map((each) => `${each.pipeline} ${formatCount(sumOf(each))}`).join(', ')}
        isShort
      />
    ),
  },
]
