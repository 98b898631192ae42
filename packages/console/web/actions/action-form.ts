import { fromLocalInput, toLocalInput } from '../format/local-input.js'
import type { KeyAction } from './key-action.js'

/** What was entered, as text: it may be wrong. */
export interface Entered {
  readonly result: string
  readonly status: string
  readonly body: string
  /** As `<input type="datetime-local">` has it, in the reader's zone. */
  readonly until: string
  readonly effectsUndone: boolean
  readonly recentEffects: boolean
  readonly undeliveredJobs: boolean
}

/** What the API takes besides a reason, or what is wrong with what was entered. */
export type ReadForm =
  | { readonly isRight: true; readonly body: Readonly<Record<string, unknown>> }
  | { readonly isRight: false; readonly errors: Readonly<Partial<Record<keyof Entered, string>>> }

const DAY_MS = 86_400_000
/** A month is what people mean by "for longer". */
const DEFAULT_EXTENSION_MS = 30 * DAY_MS

/** An answer that says: gone, do not ask again. */
const DEFAULT_STATUS = '410'

export function emptyForm(now: number): Entered {
  return {
    result: '',
    status: DEFAULT_STATUS,
    body: '',
    until: toLocalInput(new Date(now + DEFAULT_EXTENSION_MS)),
    effectsUndone: false,
    recentEffects: false,
    undeliveredJobs: false,
  }
}

export function readForm(action: KeyAction, entered: Entered): ReadForm {
  switch (action) {
    case 'retry':
    case 'not-executed':
    case 'revoke':
      return right({})
    case 'executed': {
      if (entered.result.trim() === '') return wrong({ result: 'Give what the call would have returned.' })
      const result = readJson(entered.result)
      return result.isJson ? right({ result: result.value }) : wrong({ result: NOT_JSON })
    }
    case 'answer': {
      const status = Number(entered.status)
      if (!Number.isInteger(status) || status < 200 || status > 499)
        return wrong({ status: 'A status from 200 to 499.' })
      if (entered.body.trim() === '') return right({ status })
      const body = readJson(entered.body)
      return body.isJson ? right({ status, body: body.value }) : wrong({ body: NOT_JSON })
    }
    case 'extend': {
      const until = fromLocalInput(entered.until)
      return until === null
        ? wrong({ until: 'Give a day and a time.' })
        : right({ until: until.toISOString() })
    }
    case 'forget':
      return right({ effectsUndone: entered.effectsUndone })
    case 'erase':
      return right({ recentEffects: entered.recentEffects, undeliveredJobs: entered.undeliveredJobs })
  }
}

const NOT_JSON = 'This is not JSON. A text needs quotes; null is for nothing.'

function right(body: Readonly<Record<string, unknown>>): ReadForm {
  return { isRight: true, body }
}

function wrong(errors: Readonly<Partial<Record<keyof Entered, string>>>): ReadForm {
  return { isRight: false, errors }
}

function readJson(
  text: string,
): { readonly isJson: true; readonly value: unknown } | { readonly isJson: false } {
  try {
    return { isJson: true, value: JSON.parse(text) as unknown }
  } catch {
    return { isJson: false }
  }
}
