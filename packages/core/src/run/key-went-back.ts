import { isPawlError, PawlError } from '../errors.js'
import type { Intent } from '../storage/keys/key-row.js'

/** Tells a person why a key cannot go on from where it is stored. */
export function keyWentBack(recoveryPoint: string, call: Intent): PawlError {
  return new PawlError(
    'PAWL_KEY_WENT_BACK',
    `The key is at '${recoveryPoint}', and of the call of phase '${call.phase}', which does not come next, something is ` +
      `known already. The database has lost commits, as a failover to a replica that was behind does. ${advice(call)}`,
  )
}

function advice(call: Intent): string {
  const isSaid = call.kind === 'not_made' || (call.kind === 'called' && call.said === true)
  return isSaid
    ? 'What was said of it cannot be kept until its turn, because it has passed or another call comes before. Put right ' +
        'what the lost phases left behind: unless what was said is wrong, answer is what is left.'
    : 'Find out at the provider what came of that call, and what the lost phases left behind; then unstick or answer the key.'
}

/** Tells a person about a response that would have ended a request whose call was executed, without anyone being told. */
export function responseBuries(call: Intent, phase: string, status: number): PawlError {
  return new PawlError(
    'PAWL_KEY_WENT_BACK',
    `Phase '${phase}' gave the final response ${status}, and the call of the later phase '${call.phase}' was executed before ` +
      'the database lost commits. The response was not stored. Undo the call at the provider and answer the key with that ' +
      'response, or unstick it once the phase lets it through.',
  )
}

export function isKeyWentBack(error: unknown): boolean {
  return isPawlError(error) && error.code === 'PAWL_KEY_WENT_BACK'
}
