import type { InterventionView, JobView, KeySummary, KeyView } from '@pawl/core'
import type { KeyRowSummary, ShownIntervention, ShownJob, ShownKey } from '../api.js'
import { shownBytes, shownValue } from './shown-value.js'

/** A key for a list, without anything that its client or a provider sent. */
export function summarize(key: KeyView): KeyRowSummary {
  const { input: _input, state: _state, trail: _trail, response, call, ...shown } = key
  return {
    ...shown,
    call: call === null ? null : { phase: call.phase, known: call.known, late: call.late },
    responseStatus: response?.status ?? null,
  }
}

/** A key of a page without what a list has no room for. */
export function listed({ trail: _trail, ...row }: KeySummary): KeyRowSummary {
  return row
}

/** A key with everything that is known about it. */
export function shownKey(key: KeyView, reveal: boolean): ShownKey {
  const { response, call } = key
  return {
    ...key,
    input: shownValue(key.input, reveal),
    state: shownValue(key.state, reveal),
    call: call === null ? null : { ...call, result: shownValue(call.result, reveal) },
    response:
      response === null
        ? null
        : {
            status: response.status,
            headers: Object.fromEntries(
              // Names say what was stored; values may say for whom.
              Object.entries(response.headers).map(([name, value]) => [name, shownValue(value, reveal)]),
            ),
            body: shownBytes(response.body, reveal),
          },
  }
}

export function shownJob(job: JobView, reveal: boolean): ShownJob {
  return { ...job, payload: shownValue(job.payload, reveal) }
}

/** What an operator gave may contain what the client was told. */
export function shownIntervention<View extends InterventionView>(
  intervention: View,
  reveal: boolean,
): ShownIntervention<View> {
  return { ...intervention, detail: shownValue(intervention.detail, reveal) }
}
