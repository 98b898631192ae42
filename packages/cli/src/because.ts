import type { Because } from '@pawl/core'
import { actorOf } from './actor.js'
import { type Context, required, value } from './command.js'
import { parseText } from './parse/value.js'

/** Options of every command that changes something: they end up in the table of interventions. */
export const becauseOptions = {
  reason: required('TEXT', parseText, 'why, for whoever reads it next year'),
  actor: value('NAME', parseText, 'who does it; default: the environment’s PAWL_ACTOR, else user@host'),
} as const

export function becauseOf(
  options: { readonly reason: string; readonly actor: string | undefined },
  { env }: Context,
): Because {
  return { actor: actorOf(options.actor, env), reason: options.reason }
}
