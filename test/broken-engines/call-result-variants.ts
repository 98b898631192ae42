import type { Variant } from './variant.js'

/** Engines that are wrong about what an error of a call means, and about what a call has returned. */
export const CALL_RESULT_VARIANTS = [
  {
    name: 'no-status-is-an-answer',
    broken: 'An error that carries no status of the provider may become a final answer.',
    endangers: 'A request fails for good although its charge was made.',
    replacements: [
      {
        file: 'run/is-ambiguous.ts',
        from: 'if (keyReused || bug || statuses.length + grpcCodes.length === 0) return true',
        to: 'if (keyReused || bug) return true',
      },
    ],
    ride: 'hasty',
    search: { by: 'faults', faults: ['providerDisconnect'], depth: 1 },
    foundBy:
      'The connection to the provider breaks once it has executed; the client of the ride reports that with an error of ' +
      'its own, and onError answers it with 402: the key is finished, and the charge is there.',
    expected: ['I7', 'oracle'],
  },
  {
    name: 'large-result-dropped',
    broken: 'A result of more than 64 KiB is not kept when its settle fails.',
    endangers: 'A call that returned is made again.',
    replacements: [
      {
        file: 'run/settle-result.ts',
        from: 'const intent = result.intent ?? run.row.intent',
        to: 'const intent = result.bytes > 64 * 1024 ? null : (result.intent ?? run.row.intent)',
      },
    ],
    ride: 'large_result',
    search: { by: 'faults', faults: ['throw'], depth: 1 },
    foundBy:
      'An exception in settle (charge_created/query#1:before) once the charge was made: the retry charges ' +
      'again, where it has to settle the result that the call returned.',
    expected: ['I2'],
  },
  {
    name: 'refusal-never-counts',
    broken: 'A refusal of the provider that onError wants to retry does not count as an attempt.',
    endangers: 'A request that can never succeed is tried for a day, and nobody is told.',
    replacements: [
      { file: 'run/call-failed.ts', from: 'isAttempt: isRefusal(error),', to: 'isAttempt: false,' },
    ],
    ride: 'refused',
    search: { by: 'faults', faults: ['crash'], depth: 1 },
    foundBy:
      'A crash at charge_created/call#1:after: the second request has another body under the same key, the provider ' +
      'refuses it each time, and the key is never stuck.',
    expected: ['L1'],
  },
] as const satisfies readonly Variant[]
