import type { EffectView } from '@pawl/core'
import type { AsJson, KeyRowSummary, Reconciliation } from '../../../src/api.js'
import { ForeignText } from '../../components/foreign-text.js'
import { Identifier } from '../../components/identifier.js'
import { Age, Time } from '../../components/moment.js'
import type { Column } from '../../components/table.js'
import { formatCount } from '../../format/count.js'
import { REASON_TEXT } from '../../format/stuck-reason.js'

type Group = AsJson<Reconciliation>['groups'][number]

export const GROUP_COLUMNS: readonly Column<Group>[] = [
  {
    id: 'phase',
    title: 'Phase',
    isHeading: true,
    cell: ({ phase, effectName }) => (
      <ForeignText text={phase === effectName ? phase : `${phase} (${effectName})`} isShort class="id" />
    ),
  },
  { id: 'pipeline', title: 'Pipeline', cell: ({ pipeline }) => <ForeignText text={pipeline} isShort /> },
  { id: 'effects', title: 'Effects', align: 'end', cell: ({ effects }) => formatCount(effects) },
  {
    id: 'bare',
    title: 'Without reference',
    align: 'end',
    cell: ({ withoutReference }) => formatCount(withoutReference),
  },
  { id: 'undone', title: 'Undone', align: 'end', cell: ({ undone }) => formatCount(undone) },
  { id: 'first', title: 'First', align: 'end', cell: ({ firstAt }) => <Time at={firstAt} /> },
  { id: 'last', title: 'Last', align: 'end', cell: ({ lastAt }) => <Time at={lastAt} /> },
]

export const DOUBT_COLUMNS: readonly Column<AsJson<KeyRowSummary>>[] = [
  {
    id: 'key',
    title: 'Key',
    isHeading: true,
    cell: ({ key }) => <ForeignText text={key} isShort class="id" />,
  },
  { id: 'scope', title: 'Scope', cell: ({ scope }) => <ForeignText text={scope} isShort /> },
  {
    id: 'call',
    title: 'Call of',
    cell: ({ call, pipeline, version }) => (
      <ForeignText text={`${call?.phase ?? ''}, ${pipeline}@${version}`} isShort />
    ),
  },
  {
    id: 'why',
    title: 'Why',
    cell: ({ stuckReason }) => (stuckReason === null ? '' : REASON_TEXT[stuckReason].title),
  },
  { id: 'age', title: 'Age', align: 'end', cell: ({ createdAt }) => <Age since={createdAt} /> },
]

export const EFFECT_COLUMNS: readonly Column<AsJson<EffectView>>[] = [
  {
    id: 'key',
    title: 'Key',
    isHeading: true,
    cell: ({ key }) => <ForeignText text={key} isShort class="id" />,
  },
  {
    id: 'phase',
    title: 'Phase',
    cell: ({ phase, pipeline, version }) => <ForeignText text={`${phase}, ${pipeline}@${version}`} isShort />,
  },
  {
    id: 'provider-key',
    title: 'Key sent to the provider',
    cell: ({ providerKey }) => <Identifier text={providerKey} what="provider key" isShort />,
  },
  { id: 'at', title: 'When', align: 'end', cell: ({ at }) => <Time at={at} /> },
]
