import type { Variant } from './variant.js'

/** Engines that are wrong about what is answered, and to whom. */
export const ANSWER_VARIANTS = [
  {
    name: 'fingerprint-ignored',
    broken: 'The same key stands for the same request, whatever was sent with it.',
    endangers: "Another request gets this one's response.",
    replacements: [
      {
        file: 'request/decide-reservation.ts',
        from: "if (compared?.type === 'other') return { type: 'mismatch', differs: 'request' }",
        to: '',
      },
    ],
    ride: 'keyed',
    search: { by: 'clean run' },
    foundBy: 'Another amount under the same key gets the stored response, replayed, instead of a mismatch.',
    expected: ['I12'],
  },
  {
    name: 'response-stored-as-jsonb',
    broken:
      'The response goes through jsonb, which changes the order of its members and the spaces between them.',
    endangers: 'A replay has other bytes than the first answer.',
    replacements: [
      {
        file: 'storage/keys/finish-key.ts',
        from: 'response_body = $10::bytea',
        to: `response_body = convert_to(convert_from($10::bytea, 'UTF8')::jsonb::text, 'UTF8')`,
      },
    ],
    ride: 'keyed',
    // Sealed bytes are no text, so that nothing could be finished at all.
    without: ['protect'],
    search: { by: 'clean run' },
    foundBy:
      'The stored body has a space after each colon and comma, and so has every replay. The first answer ' +
      'had none.',
    expected: ['I3'],
  },
  {
    name: 'transient-response-stored',
    broken: 'A response of 503 is stored and replayed like any other.',
    endangers: 'A request fails for good because its provider was away for a moment.',
    replacements: [
      {
        file: 'run/interpret-return.ts',
        from: `if (isTransientStatus(value.response.status)) return { type: 'roll_back', directive: value }`,
        to: '',
      },
    ],
    ride: 'keyed',
    search: { by: 'faults', faults: ['provider5xx'], depth: 1 },
    foundBy:
      'The provider answers 500 once, and onError responds with 503: the key is finished with it, and every ' +
      'retry replays it.',
    expected: ['I7'],
  },
] as const satisfies readonly Variant[]
