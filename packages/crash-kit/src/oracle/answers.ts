import type { Outcome, ResumeOutcome, StoredResponse } from '@pawl/core'
import type { History, Row, Told } from '../history.js'
import { textIn } from './key-state.js'
import { isObject, jsonText, shown } from './same-json.js'

/** A response in a form that can be compared: equal exactly where status, headers and bytes are. */
export interface Answer {
  readonly status: number
  /** JSON text. The audit does not keep the order of headers, and neither does HTTP. */
  readonly headers: string
  readonly hex: string
}

type FinalOutcome = Extract<Outcome | ResumeOutcome, { type: 'completed' | 'replayed' }>
export type ToldFinally = Told & { readonly outcome: FinalOutcome }

/** Those who were told that it is over. */
export function toldFinally({ told }: History): ToldFinally[] {
  return told.filter(
    (each): each is ToldFinally => each.outcome.type === 'completed' || each.outcome.type === 'replayed',
  )
}

export function answerOf({ status, headers, body }: StoredResponse): Answer {
  return { status, headers: jsonText(headers), hex: Buffer.from(body).toString('hex') }
}

/** What a row has stored; null where that is nothing. */
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

export function sayAnswer({ status, headers, hex }: Answer): string {
  return `${status} ${headers} ${shown(Buffer.from(hex, 'hex').toString())}`
}

/** Statuses that say nothing of what happened: a retry may end otherwise. */
export function isTransient(status: number): boolean {
  return status >= 500 || status === 408 || status === 425 || status === 429
}
