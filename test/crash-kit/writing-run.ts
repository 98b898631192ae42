import type { JsonValue } from '@pawl/core'
import type { History, Row } from '../../packages/crash-kit/src/history.js'
import { HistoryBuilder } from './history-builder.js'
import { insert } from './row-changes.js'
import { json } from './sample-outcomes.js'

/** A run that writes these rows and answers with this body, in one phase. */
export function writingRun(
  run: number,
  rows: Record<string, JsonValue>[],
  body: JsonValue = {},
  headers = {},
): History {
  const story = new HistoryBuilder(run).reserve('client')
  const changes = rows.map((row) => insert('rides', row as Row))
  return story
    .advance('client', 'ride_created', ...changes)
    .finish('client', json(200, body, headers))
    .build()
}
