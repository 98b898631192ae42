import { validateHeaderName, validateHeaderValue } from 'node:http'
import { checkKnownOptions, invalidOption, type OptionOwner } from '@pawl/core/internal'

/** What the fake provider answers. */
export interface FakeAnswer {
  /** Default 200. From 400 on, nothing has been executed. */
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
  /** A string or bytes go out as they are, anything else as JSON. Nothing: an empty body. */
  readonly body?: unknown
}

/** An answer that is sure to go over the wire. */
export interface WireAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly bytes: Buffer
  /** What the bytes were made of. */
  readonly body: unknown
}

const MEMBERS = ['status', 'headers', 'body'] as const satisfies readonly (keyof FakeAnswer)[]

/** How long the body is, and how it is framed, is for the server to say: it may have to cut it. */
const FRAMING = new Set(['content-length', 'transfer-encoding', 'connection'])

/** Throws where the user's function gave something else than an answer. */
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

/** An answer of the server itself, in the shape in which most providers tell their errors. */
export function refusal(
  status: number,
  code: string,
  message: string,
  headers: Readonly<Record<string, string>> = {},
): WireAnswer {
  return toWire({ status, headers, body: { error: { code, message } } }, 'fakeProvider')
}

/** The same answer, told again. */
export function replayed(answer: WireAnswer): WireAnswer {
  return { ...answer, headers: { ...answer.headers, 'idempotent-replayed': 'true' } }
}

/** A whole HTTP response whose body ends in the middle. */
export function halved(answer: WireAnswer): WireAnswer {
  return { ...answer, bytes: answer.bytes.subarray(0, Math.floor(answer.bytes.length / 2)) }
}
