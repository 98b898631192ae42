import { defineCommand } from '../command.js'
import { EXIT } from '../exit-code.js'
import { keyArguments, keyOptions, keyReferenceOf, noSuchKey } from '../key-arguments.js'
import { safeText } from '../render/safe-text.js'

export const nextCommand = defineCommand({
  name: 'next',
  summary: 'what would happen to a key if it were resumed now, and why',
  args: keyArguments,
  options: keyOptions,
  details: [
    'It is decided by what an engine decides it by, and nothing is changed: which phase would run; whether the provider would be called, and with which key, or asked; or that a person is needed.',
    'It goes by what engines have recorded of their pipelines when they started. Where none has recorded the definition that the key is pinned to, that is what it says.',
  ],
  exits: { [EXIT.failed]: 'there is no such key', [EXIT.findings]: 'a person has to decide' },
  async run({ args, options }, { withDatabase }) {
    const of = keyReferenceOf(args, options)
    const next = await withDatabase(({ operator }) => operator.next(of))
    if (next === null) throw noSuchKey(of)
    return {
      exit: next.type === 'needs_a_person' ? EXIT.findings : EXIT.ok,
      // Names of phases and what the provider gets are the application's, and keys of providers may be anybody's.
      lines: [safeText(next.sentence), safeText(next.because)],
      json: next,
    }
  },
})
