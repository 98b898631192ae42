import { PawlError } from '../errors.js'
import { isPlainObject } from '../is-plain-object.js'
import { MAX_JSON_DEPTH } from '../limits.js'
import { disarmPromise } from '../disarm-promise.js'

/** A value that JSON can carry without loss. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue | undefined }

/** An object of JSON values. `undefined` members are left out, as JSON.stringify does. */
export type JsonObject = { readonly [key: string]: JsonValue | undefined }

declare const reason: unique symbol

/** Nothing can be assigned to it, so the compiler prints its argument: a sentence that says what to do. */
export interface NotJson<Reason extends string> {
  readonly [reason]: Reason
}

/**
 * `T` itself where JSON can carry it, with a sentence in place of each member that it cannot carry. The compiler prints
 * that sentence.
 */
export type Jsonable<T> = 0 extends 1 & T
  ? T
  : T extends JsonValue | undefined
    ? T
    : T extends bigint
      ? NotJson<'a bigint is not JSON: keep a string'>
      : T extends symbol
        ? NotJson<'a symbol is not JSON: keep a string'>
        : T extends Date
          ? NotJson<'a Date is not JSON: keep date.toISOString()'>
          : T extends (...args: never[]) => unknown
            ? NotJson<'a function is not JSON: keep plain data'>
            : T extends ReadonlyMap<unknown, unknown> | ReadonlySet<unknown>
              ? NotJson<'a Map or Set is not JSON: keep an array or a plain object'>
              : T extends ArrayBufferView | ArrayBuffer
                ? NotJson<'a binary buffer is not JSON: keep a base64 string'>
                : T extends object
                  ? { [K in keyof T]: Jsonable<T[K]> }
                  : NotJson<'a value of unknown type is not JSON: give it a JSON type'>

/** Where a value that is about to be stored comes from, for error messages. */
export interface JsonOrigin {
  /** Such as `the state returned by phase 'ride_created' of pipeline 'create-ride'`. */
  readonly what: string
  readonly maxBytes: number
}

/** Returns the JSON text of a value, after checking its size and that nothing would be lost. */
export function encodeJson(value: unknown, origin: JsonOrigin): string {
  checkJson(value, origin.what)
  const text = JSON.stringify(value)
  const bytes = Buffer.byteLength(text)
  if (bytes > origin.maxBytes) throw tooLarge(origin, bytes)
  return text
}

/** `bytes`: its size, where that is known. */
export function tooLarge({ what, maxBytes }: JsonOrigin, bytes?: number): PawlError {
  const size =
    bytes === undefined
      ? `more than ${maxBytes} bytes of JSON, which is the cap`
      : `${bytes} bytes of JSON; the cap is ${maxBytes}`
  return new PawlError(
    'PAWL_TOO_LARGE',
    `${capitalise(what)} is ${size}. ` +
      'Keep large data in a table of your own and its id here, or raise the cap in createEngine({ caps }).',
  )
}

/** Refuses whatever JSON would not give back unchanged. */
export function checkJson(value: unknown, what: string): void {
  disarmPromise(value)
  // It nearly always is JSON, and then there is no need to find the place where it is not.
  if (!isJson(value, 0)) assertJson(value, what, '', 0)
}

/** Answers the same question as `assertJson`. */
function isJson(value: unknown, depth: number): boolean {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return depth <= MAX_JSON_DEPTH
    case 'number':
      return depth <= MAX_JSON_DEPTH && Number.isFinite(value)
    case 'object':
      return depth <= MAX_JSON_DEPTH && (value === null || isJsonContainer(value, depth + 1))
    default:
      return false
  }
}

function isJsonContainer(value: object, depth: number): boolean {
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) if (!isJson(value[index], depth)) return false
    return true
  }
  if (Object.getPrototypeOf(value) !== Object.prototype) return false
  for (const name of Object.keys(value)) {
    const member = (value as Record<string, unknown>)[name]
    if (member !== undefined && !isJson(member, depth)) return false
  }
  return true
}

function assertJson(value: unknown, what: string, path: string, depth: number): void {
  if (depth > MAX_JSON_DEPTH)
    throw notJson(what, path.slice(0, 60), `is nested deeper than ${MAX_JSON_DEPTH} levels`)
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return
    case 'number':
      if (!Number.isFinite(value)) throw notJson(what, path, `is ${value}, which JSON would turn into null`)
      return
    case 'object':
      if (value !== null) assertJsonContainer(value, what, path, depth)
      return
    default:
      throw notJson(what, path, `is ${typeof value === 'undefined' ? 'undefined' : `a ${typeof value}`}`)
  }
}

function assertJsonContainer(value: object, what: string, path: string, depth: number): void {
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      assertJson(value[index], what, `${path}[${index}]`, depth + 1)
    }
    return
  }
  if (!isPlainObject(value)) {
    const { constructor } = value as { readonly constructor?: { readonly name?: unknown } }
    throw notJson(
      what,
      path,
      `is a ${String(constructor?.name)}, which JSON would not preserve: keep plain data, such as date.toISOString()`,
    )
  }
  for (const [key, member] of Object.entries(value)) {
    if (member !== undefined) assertJson(member, what, `${path}.${key}`, depth + 1)
  }
}

function notJson(what: string, path: string, problem: string): PawlError {
  return new PawlError(
    'PAWL_NOT_JSON',
    `${capitalise(what)} is not JSON: ${path === '' ? 'it' : path} ${problem}.`,
  )
}

function capitalise(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
