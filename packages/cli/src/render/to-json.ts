import type { InterventionView, JobView, KeyReport, KeyView } from '@pawl/core'
import { responseJson, type Reveal, valueJson } from './redact.js'

/** A key for machines. What its client sent and received is included only if asked for. */
export function keyToJson(key: KeyView, reveal: Reveal): Record<string, unknown> {
  return {
    ...key,
    input: valueJson(key.input, reveal),
    state: valueJson(key.state, reveal),
    call: key.call === null ? null : { ...key.call, result: valueJson(key.call.result, reveal) },
    response: responseJson(key.response, reveal),
  }
}

export function jobToJson(job: JobView, reveal: Reveal): unknown {
  return { ...job, payload: valueJson(job.payload, reveal) }
}

export function reportToJson(report: KeyReport, reveal: Reveal): unknown {
  return {
    key: keyToJson(report.key, reveal),
    effects: report.effects,
    jobs: report.jobs.map((job) => jobToJson(job, reveal)),
    interventions: report.interventions.map((intervention) => interventionToJson(intervention, reveal)),
  }
}

/** What an operator gave may contain what the client was told. */
function interventionToJson(intervention: InterventionView, reveal: Reveal): unknown {
  return { ...intervention, detail: valueJson(intervention.detail, reveal) }
}
