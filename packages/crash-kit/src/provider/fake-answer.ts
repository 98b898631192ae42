import { validateHeaderName, validateHeaderValue } from 'node:http'
import { checkKnownOptions, invalidOption, type OptionOwner } from '@pawl/core/internal'

/** What the fake provider answers. */
export interface FakeAnswer {
  /** Default 200. With 400 or more, nothing has been executed. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** A string or bytes are sent as they are, anything else as JSON. If it is left out, the body is empty. */
  readonly body?: unknown
}

/** A checked answer that can be sent. */
export interface WireAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly bytes: Buffer
  /** The value that the bytes were made from. */
  readonly body: unknown
}

const MEMBERS = ['status', 'headers', 'body'] as const satisfies readonly (keyof FakeAnswer)[]

/** The server sets the length and the framing of the body, because it may have to cut the body. */
const FRAMING = new Set(['content-length', 'transfer-encoding', 'connection'])

/** Throws if the user's function returned something other than an answer. */
export function toWire(answer: FakeAnswer, where: string): WireAnswer {
  const owner: OptionOwner = { code: 'PAWL_INVALID_OPTION', where }
  checkKnownOptions(owner, answer, MEMBERS)
  const { status = 200, headers = {}, body } = answer
  if (!Number.isInteger(status) || status < 200 || status > 599)
    throw invalidOption(owner, 'status', status, 'a whole number from 200 to 599')
  const { mediaType, bytes } = encoded(body)
  return { status, headers: { ...mediaType, ...checkedHeaders(headers) }, bytes, body }
}

function encoded(body: unknown): { mediaType: Record<string, string>; bytes: Buffer } {
  if (body === undefined) return { mediaType: {}, bytes: Buffer.alloc(0) }
  if (typeof body === 'string')
    return { mediaType: { 'content-type': 'text/plain; charset=utf-8' }, bytes: Buffer.from(body) }
  if (body instanceof Uint8Array)
    return { mediaType: { 'content-type': 'application/octet-stream' }, bytes: Buffer.from(body) }
  return { mediaType: { 'content-type': 'application/json' }, bytes: Buffer.from(JSON.stringify(body)) }
}

function checkedHeaders(headers: Readonly<Record<string, string>>): Record<string, string> {
  const checked: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    validateHeaderName(name)
    validateHeaderValue(name, value)
    if (!FRAMING.has(name.toLowerCase())) checked[name.toLowerCase()] = value
  }
  return checked
}

/** Returns an error answer of the server itself, in the form that most providers use. */
export function refusal(
  status: number,
  code: string,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): WireAnswer {
  return toWire({ status, headers, body: { error: { code, message } } }, 'fakeProvider')
}

/** Returns the answer as it is sent to a repeated request. */
export function replayed(answer: WireAnswer): WireAnswer {
  return { ...answer, headers: { ...answer.headers, 'idempotent-replayed': 'true' } }
}

/** Returns a whole HTTP response whose body ends in the middle. */
export function halved(answer: WireAnswer): WireAnswer {
  return { ...answer, bytes: answer.bytes.subarray(0, Math.floor(answer.bytes.length / 2)) }
}
