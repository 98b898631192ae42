import type { Intervention, KeyReference } from '@pawl/core'
import { CliError } from './cli-error.js'
import type { Report } from './command.js'
import { EXIT } from './exit-code.js'
import { noSuchKey } from './key-arguments.js'
import { keyToJson } from './render/to-json.js'

/** What to report about a step that was wanted. `done`: what it means that the step was taken. */
export function reportIntervention(intervention: Intervention, of: KeyReference, done: string): Report {
  switch (intervention.type) {
    case 'done':
      return {
        exit: EXIT.ok,
        lines: [done],
        json: { type: 'done', key: keyToJson(intervention.key, false) },
      }
    case 'would_be_done':
      return {
        exit: EXIT.ok,
        lines: ['It can be done. Nothing was changed; leave out --dry-run to do it.'],
        json: { type: 'would_be_done', key: keyToJson(intervention.key, false) },
      }
    case 'not_found':
      throw noSuchKey(of)
    case 'refused':
      throw new CliError('refused', `Nothing was changed: ${intervention.detail}`)
  }
}
