import { isPawlError, PawlError } from '../errors.js'
import type { Intent } from '../storage/keys/key-row.js'

/** Tells a person why a key cannot go on from where it is stored. */
export function keyWentBack(recoveryPoint: string, call: Intent): PawlError {
  return new PawlError(
    'PAWL_KEY_WENT_BACK',
    `The key is at '${recoveryPoint}', but the call of phase '${call.phase}', which does not come next, is already on ` +
      `record. The database has lost commits, as happens in a failover to a replica that was behind. ${advice(call)}`,
  )
}

function advice(call: Intent): string {
  const isSaid = call.kind === 'not_made' || (call.kind === 'called' && call.said === true)
  return isSaid
    ? 'The verdict on it cannot be kept until its turn comes, because its turn has passed or another call comes first. ' +
        'Put right what the lost phases left behind; then, unless the verdict is wrong, only answering the key is left.'
    : 'Find out at the provider what became of that call, and what the lost phases left behind; then unstick or answer the key.'
}

/** Tells a person about a response that would have ended a request whose call was executed, without anyone being told. */
export function responseBuries(call: Intent, phase: string, status: number): PawlError {
  return new PawlError(
    'PAWL_KEY_WENT_BACK',
    `Phase '${phase}' returned the final response ${status}, but the call of the later phase '${call.phase}' was executed before ` +
      'the database lost commits. The response was not stored. Undo the call at the provider and answer the key with that ' +
      'response, or unstick it once the phase lets it through.',
  )
}

export function isKeyWentBack(error: unknown): boolean {
  return isPawlError(error) && error.code === 'PAWL_KEY_WENT_BACK'
}
