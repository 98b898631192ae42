import { checkKnownOptions, type OptionOwner } from '@pawl/core/internal'
import { PawlError } from '@pawl/core'
import type { FastifyReply, FastifyRequest } from 'fastify'

/** Who looks at the console. */
export interface ConsoleUser {
  /** Such as `anna@example.com`. Written to `interventions` with everything that they do. */
  readonly actor: string
  /** Whether they may change anything: retry, answer, requeue and so on. */
  readonly canChange: boolean
  /** Whether they may see what clients and providers sent. It is recorded each time. Default: as `canChange`. */
  readonly canReveal?: boolean
}

/**
 * Says who sends a request; null for somebody who is not signed in, who gets a 401. It may also send an answer by itself, such as a
 * redirect to a page where one signs in. It runs as an `onRequest` hook, after those of the application.
 */
export type Authenticate = (
  request: FastifyRequest,
  reply: FastifyReply,
) => ConsoleUser | null | Promise<ConsoleUser | null>

/** A user with the default filled in. */
export type SignedIn = Required<ConsoleUser>

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'authenticate' }
/** What `interventions` has room for. */
const MAX_ACTOR_LENGTH = 255

/** Checked at every request: a rule that is misspelt must not let anybody do more than was meant. */
export function checkUser(user: ConsoleUser): SignedIn {
  checkKnownOptions(OWNER, user, ['actor', 'canChange', 'canReveal'])
  const { actor, canChange, canReveal = canChange } = user
  const isName = typeof actor === 'string' && actor.trim() !== '' && actor.length <= MAX_ACTOR_LENGTH
  if (!isName || typeof canChange !== 'boolean' || typeof canReveal !== 'boolean') {
    throw new PawlError(
      'PAWL_INVALID_OPTION',
      `authenticate: it has to return null, or { actor, canChange, canReveal? }: a name of 1 to ${MAX_ACTOR_LENGTH} characters, and true or false.`,
    )
  }
  return { actor, canChange, canReveal }
}
