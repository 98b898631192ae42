import { expect, test } from 'vitest'
import { parseProtectKeys } from '../../packages/cli/src/parse/protect-keys.js'

const [one, two] = ['11'.repeat(32), '22'.repeat(32)]
const at = { scope: 's', row: 'r', column: 'input' }

test('the last key of PAWL_PROTECT_KEYS seals, and all of them open', () => {
  const both = parseProtectKeys(`k1:${one}, k2:${two}`)
  const sealed = parseProtectKeys(`k1:${one}`)?.seal(Buffer.from('x'), at)
  expect(Buffer.from(both?.open(sealed as never, at) ?? '').toString()).toBe('x')
  expect(both?.seal(Buffer.from('x'), at).keyId).toBe('k2')
  expect(parseProtectKeys(undefined)).toBeNull()
  expect(parseProtectKeys('')).toBeNull()
})

test.each(['hunter2', `k1=${one}`, `k1:${one.slice(2)}`, `k1:${one},`, `a b:${one}`])(
  '%s is refused, and not told',
  (text) => {
    expect(() => parseProtectKeys(text)).toThrow(/^PAWL_PROTECT_KEYS cannot be read; [^12]*k1:HEX,k2:HEX/)
  },
)
