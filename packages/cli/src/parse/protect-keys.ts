import { aesGcm, type Protection } from '@pawl/core'
import { usageError } from '../cli-error.js'

const ONE_KEY = /^([A-Za-z0-9._-]{1,32}):([0-9a-fA-F]{64})$/

/** Reads `id:hex,id:hex`, of which the last key seals. Null where there is nothing to read. */
export function parseProtectKeys(text: string | undefined): Protection | null {
  if (text === undefined || text === '') return null
  const keys: Record<string, Uint8Array> = {}
  let current = ''
  for (const part of text.split(',')) {
    const [, id, hex] = ONE_KEY.exec(part.trim()) ?? []
    // Without the text itself, which is made of keys.
    if (id === undefined || hex === undefined)
      throw usageError(
        'PAWL_PROTECT_KEYS cannot be read; it has to be like k1:HEX,k2:HEX, with 64 digits for each key.',
      )
    keys[id] = Buffer.from(hex, 'hex')
    current = id
  }
  return aesGcm({ keys, current })
}
