import type { JsonValue, StoredResponse } from '@pawl/core'
import { counted } from './counted.js'

/** Whether to print what clients sent and received. */
export type Reveal = boolean

/** A client's value, for a line of text. */
export function valueText(value: JsonValue, reveal: Reveal): string {
  const json = JSON.stringify(value)
  return reveal ? json : hiddenText(Buffer.byteLength(json))
}

/** A client's value, as a member of JSON. */
export function valueJson(value: JsonValue, reveal: Reveal): unknown {
  return reveal ? value : hiddenJson(Buffer.byteLength(JSON.stringify(value)))
}

export function bodyText(body: Buffer, reveal: Reveal): string {
  if (body.length === 0) return 'none'
  if (!reveal) return hiddenText(body.length)
  return decode(body) ?? `base64 ${body.toString('base64')}`
}

/** A string where the bytes are text; otherwise `{ base64 }`. */
export function responseJson(response: StoredResponse | null, reveal: Reveal): unknown {
  if (response === null) return null
  const { status, headers, body } = response
  if (!reveal) return { status, headers: hiddenHeaders(headers), body: hiddenJson(body.length) }
  return { status, headers, body: decode(body) ?? { base64: body.toString('base64') } }
}

/** Header names say what was stored; their values may say for whom. */
export function headersText(headers: Readonly<Record<string, string>>, reveal: Reveal): string {
  const lines = Object.entries(headers).map(([name, value]) => (reveal ? `${name}: ${value}` : name))
  return lines.length === 0 ? 'none' : lines.join(reveal ? '; ' : ', ')
}

function hiddenHeaders(headers: Readonly<Record<string, string>>): unknown {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, hiddenJson(Buffer.byteLength(value))]),
  )
}

function hiddenText(bytes: number): string {
  return `‹redacted, ${counted(bytes, 'byte')}; --reveal›`
}

function hiddenJson(bytes: number): { readonly redacted: true; readonly bytes: number } {
  return { redacted: true, bytes }
}

/** Null where the bytes are not UTF-8. */
function decode(body: Buffer): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body)
  } catch {
    return null
  }
}
