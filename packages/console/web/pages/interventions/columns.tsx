import type { AsJson, InterventionList } from '../../../src/api.js'
import { ForeignText } from '../../components/foreign-text.js'
import { Time } from '../../components/moment.js'
import type { Column } from '../../components/table.js'

type Row = AsJson<InterventionList>['rows'][number]

export const COLUMNS: readonly Column<Row>[] = [
  { id: 'at', title: 'When', cell: ({ at }) => <Time at={at} /> },
  {
    id: 'action',
    title: 'Action',
    isHeading: true,
    cell: ({ action }) => <ForeignText text={action} class="id" />,
  },
  { id: 'actor', title: 'Who', cell: ({ actor }) => <ForeignText text={actor} isShort /> },
  {
    id: 'key',
    title: 'Request',
    cell: ({ key, scope }) =>
      key === null ? (
        <span class="muted">{scope === null ? 'none' : 'all of a scope'}</span>
      ) : (
        <ForeignText text={key} isShort class="id" />
      ),
  },
  {
    id: 'scope',
    title: 'Scope',
    cell: ({ scope }) => (scope === null ? '' : <ForeignText text={scope} isShort />),
  },
  {
    id: 'reason',
    title: 'Reason',
    cell: ({ reason }) =>
      reason === null ? <span class="muted">none</span> : <ForeignText text={reason} isShort />,
  },
]
