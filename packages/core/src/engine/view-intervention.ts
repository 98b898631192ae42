import type { JsonValue } from '../pipeline/json-value.js'
import type { InterventionRow } from '../storage/interventions/find-interventions.js'
import type { InterventionView } from './intervention.js'

export function viewIntervention(row: InterventionRow): InterventionView {
  const { action, actor, reason } = row
  return {
    action,
    actor,
    reason,
    detail: JSON.parse(row.detailJson) as JsonValue,
    at: new Date(row.createdMs),
  }
}
