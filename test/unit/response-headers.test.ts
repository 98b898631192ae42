import { respond, respondBytes } from '@pawl/core'
import { expect, test } from 'vitest'

test.each([
  ['location', '/rides/1\r\nset-cookie: session=stolen'],
  ['location', '/rides/1\nx: y'],
  ['location', '/rides/\u0000'],
  ['x-a\r\nset-cookie', 'session=stolen'],
  ['x a', 'b'],
])(
  'a response whose header %j is %j is refused, so that nothing is injected into it or its replays',
  (name, value) => {
    const refused = expect.objectContaining({ code: 'PAWL_INVALID_RESPONSE' }) as Error
    expect(() => respond(201, {}, { headers: { [name]: value } })).toThrow(refused)
    expect(() => respondBytes(201, Buffer.alloc(0), { headers: { [name]: value } })).toThrow(refused)
  },
)
