import { usageError } from '../cli-error.js'

const UNIT_BYTES = { B: 1, kB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12 } as const

/** `500B`, `2kB`, `1.5MB` or `64GB`, in bytes: units of a thousand, as disks have. Without a unit, it is bytes. */
export function parseBytes(text: string): number {
  const [, amount, unit = 'B'] = /^(\d{1,12}(?:\.\d{1,3})?)(B|kB|MB|GB|TB)?$/.exec(text) ?? []
  if (amount === undefined) {
    throw usageError(`'${text}' is not a number of bytes; it has to be like 500B, 2kB, 1.5MB or 64GB.`)
  }
  return Number(amount) * UNIT_BYTES[unit as keyof typeof UNIT_BYTES]
}
