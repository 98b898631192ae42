import type { Outcome, ResumeOutcome, StoredResponse } from '@pawl/core'
import type { History, Row, ReturnedOutcome } from '../history.js'
import { textIn } from './key-state.js'
import { isObject, jsonText, shown } from './same-json.js'

/** A response in a comparable form: two are equal exactly when status, headers and bytes are. */
export interface Answer {
  readonly status: number
  /** As sorted JSON text, because the audit does not keep the order of headers, and neither does HTTP. */
  readonly headers: string
  readonly hex: string
}

type FinalType = Extract<Outcome | ResumeOutcome, { type: 'completed' | 'replayed' }>
export type FinalOutcome = ReturnedOutcome & { readonly outcome: FinalType }

/** Returns the outcomes with a final response. */
export function finalOutcomes({ outcomes }: History): FinalOutcome[] {
  return outcomes.filter(
    (each): each is FinalOutcome => each.outcome.type === 'completed' || each.outcome.type === 'replayed',
  )
}

export function answerOf({ status, headers, body }: StoredResponse): Answer {
  return { status, headers: jsonText(headers), hex: Buffer.from(body).toString('hex') }
}

/** Returns the response that a row has stored; null if there is none. */
export function answerIn(row: Row): Answer | null {
  if (row['response_status'] == null) return null
  const headers = row['response_headers']
  return {
    status: Number(row['response_status']),
    headers: jsonText(isObject(headers) ? headers : {}),
    hex: textIn(row, 'response_body').replace(/^\\x/, ''),
  }
}

export function isSameAnswer(one: Answer, other: Answer): boolean {
  return one.status === other.status && one.headers === other.headers && one.hex === other.hex
}

export function describeAnswer({ status, headers, hex }: Answer): string {
  return `${status} ${headers} ${shown(Buffer.from(hex, 'hex').toString())}`
}

/** Returns whether a status says nothing about what happened, so that a retry may end differently. */
export function isTransient(status: number): boolean {
  return status >= 500 || status === 408 || status === 425 || status === 429
}
