/** Keys by their ids; new values are sealed with the current one. */
export interface ProtectKeys {
  readonly keys: Readonly<Record<string, Buffer>>
  readonly current: string
}

/** The id of a key that comes without one, so that a list can name it later. */
const ID_OF_ONE = 'k1'
/** AES-256 takes 32 bytes. */
const HEX_KEY = /^[0-9a-f]{64}$/i
const KEY_ID = /^[A-Za-z0-9._-]{1,32}$/

/** Reads one key, in hexadecimal digits, or a list `id:key,id:key` whose first is the current one. Returns null for anything else. */
export function readProtectKeys(text: string): ProtectKeys | null {
  const named = text.split(',').map((part) => (part.includes(':') ? part.split(':') : [ID_OF_ONE, part]))
  const isRight = named.every(
    ([id = '', key = '', ...rest]) => KEY_ID.test(id) && HEX_KEY.test(key) && rest.length === 0,
  )
  const ids = new Set(named.map(([id]) => id))
  const [[current = ''] = []] = named
  if (!isRight || ids.size < named.length) return null
  return {
    keys: Object.fromEntries(named.map(([id = '', key = '']) => [id, Buffer.from(key, 'hex')])),
    current,
  }
}
