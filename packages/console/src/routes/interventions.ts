import type { InterventionFilter, InterventionPage, RecordedIntervention } from '@pawl/core'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { InterventionList, ShownIntervention } from '../api.js'
import type { ConsoleContext } from '../console-context.js'
import { csvLine } from '../csv.js'
import { DEFAULT_PAGE_ROWS, EXPORT_BATCH_ROWS, MAX_EXPORTED_INTERVENTIONS, MAX_PAGE_ROWS } from '../limits.js'
import { invalid, moment, type Query, readQuery, wholeNumber } from '../parse-query.js'
import { shownIntervention } from '../views/shown-key.js'
import { defined } from './requests.js'

const FILTER = ['from', 'to', 'action', 'actor', 'scope'] as const

/** A page of what people did, newest first. */
export async function listInterventions(
  console: ConsoleContext,
  request: FastifyRequest,
): Promise<InterventionList> {
  const query = readQuery(request.query, [...FILTER, 'limit', 'after'])
  const { interventions, next } = await console.reader.interventions({
    ...filterOf(query),
    ...defined({ after: query['after'] }),
    limit: wholeNumber(query, 'limit', 1, MAX_PAGE_ROWS) ?? DEFAULT_PAGE_ROWS,
  })
  return { rows: interventions.map((row) => shownIntervention(row, false)), next }
}

/** The same as a file, for whoever audits. */
export async function exportInterventions(
  console: ConsoleContext,
  request: FastifyRequest,
  reply: FastifyReply,
  format: 'csv' | 'json',
): Promise<string> {
  const { rows, isPartial } = await readAll(console, filterOf(readQuery(request.query, FILTER)))
  // Whoever files it should see by its name that it is not all.
  const name = `interventions${isPartial ? '-partial' : ''}.${format}`
  reply.header('content-disposition', `attachment; filename="${name}"`)
  if (format === 'json') {
    reply.type('application/json; charset=utf-8')
    return JSON.stringify({ isPartial, interventions: rows.map((row) => shownIntervention(row, false)) })
  }
  reply.type('text/csv; charset=utf-8')
  return [COLUMNS, ...rows.map((row) => shownIntervention(row, false)).map(cellsOf)].map(csvLine).join('')
}

const COLUMNS = ['at', 'action', 'actor', 'reason', 'scope', 'key', 'keyId', 'id', 'detailBytes']

function cellsOf({
  at,
  action,
  actor,
  reason,
  scope,
  key,
  keyId,
  id,
  detail,
}: ShownIntervention<RecordedIntervention>): string[] {
  const names = [scope ?? '', key ?? '', keyId ?? '', id]
  return [at.toISOString(), action, actor, reason ?? '', ...names, String(detail.bytes)]
}

async function readAll(
  console: ConsoleContext,
  filter: InterventionFilter,
): Promise<{ readonly rows: readonly RecordedIntervention[]; readonly isPartial: boolean }> {
  const rows: RecordedIntervention[] = []
  for (let after: string | null = null; ;) {
    const { interventions, next }: InterventionPage = await console.reader.interventions({
      ...filter,
      ...(after !== null && { after }),
      limit: EXPORT_BATCH_ROWS,
    })
    rows.push(...interventions)
    if (next === null) return { rows, isPartial: false }
    if (rows.length >= MAX_EXPORTED_INTERVENTIONS) return { rows, isPartial: true }
    after = next
  }
}

function filterOf(query: Query): InterventionFilter {
  const { action, actor, scope } = query
  const [from, to] = [moment(query, 'from'), moment(query, 'to')]
  if (from !== undefined && to !== undefined && from > to) throw invalid('from is after to.')
  return defined({ from, to, action, actor, scope })
}
