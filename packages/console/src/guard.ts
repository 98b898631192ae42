import type { FastifyReply, FastifyRequest } from 'fastify'
import type { ConsoleContext } from './console-context.js'
import { ConsoleError } from './console-error.js'
import { checkCsrf, checkOrigin } from './csrf.js'
import { isLocal } from './loopback.js'
import { type Authenticate, checkUser, type ConsoleUser, type SignedIn } from './user.js'

/** Whoever uses this machine: the only ones that a console without `authenticate` answers. */
const LOCAL_USER: ConsoleUser = { actor: 'console@localhost', canChange: true }

/** Lets nobody through who is not signed in. Returns whether the request is answered already. */
export async function guardSignIn(
  console: ConsoleContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<boolean> {
  const { authenticate } = console.settings
  if (authenticate === null) {
    if (!isLocal(request)) {
      throw new ConsoleError(
        'forbidden',
        'This console has no authentication, so it answers only requests that are sent on its own machine, to localhost, without a proxy.',
      )
    }
    console.signIn(request, checkUser(LOCAL_USER))
    return false
  }
  const user = await signedIn(authenticate, request, reply)
  if (reply.sent) return true
  if (user === null) throw new ConsoleError('unauthenticated', 'Nobody is signed in.')
  console.signIn(request, user)
  return false
}

/** A mistake of the application is for its log, and not for whoever asks. */
async function signedIn(
  authenticate: Authenticate,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<SignedIn | null> {
  try {
    const user = await authenticate(request, reply)
    return user === null || reply.sent ? null : checkUser(user)
  } catch (error) {
    throw new ConsoleError('internal', 'Nobody can be signed in. The log says why.', { cause: error })
  }
}

/** For requests to the API: none that another site has made a browser send. */
export function guardOrigin(request: FastifyRequest): void {
  checkOrigin(request)
  if (request.method !== 'GET') checkCsrf(request)
}

/** For changes: only by those who may. */
export function guardChange(console: ConsoleContext, request: FastifyRequest): string {
  const { actor, canChange } = console.userOf(request)
  if (canChange) return actor
  throw new ConsoleError('forbidden', `${actor} may look, but not change anything.`)
}

export function guardReveal(console: ConsoleContext, request: FastifyRequest): string {
  const { actor, canReveal } = console.userOf(request)
  if (canReveal) return actor
  throw new ConsoleError('forbidden', `${actor} may not see what clients and providers sent.`)
}
