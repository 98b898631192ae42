import type { FastifyReply } from 'fastify'

/** Who uses the reply: the handler's current try, a try that was undone, or somebody else, such as a time-out. */
export type Standing = 'running' | 'ended' | 'outside'

/** Methods that would send the reply, or take it away, before the transaction has committed. */
const SENDS = ['send', 'redirect', 'hijack', 'callNotFound'] as const

/** Methods that change the answer. */
const CHANGES = [
  'code',
  'status',
  'type',
  'header',
  'headers',
  'removeHeader',
  'serializer',
  'trailer',
  'removeTrailer',
] as const

/** A handler that returns its reply would wait for an answer that waits for the handler. */
// oxlint-disable-next-line unicorn/no-thenable -- it is taken away, not added
const AWAITS = 'then'

/**
 * Keeps an atomic handler from answering before its transaction has committed, and a try that was undone from changing
 * the answer of the one that goes on. Others, such as a time-out of the server, answer as they always do. Returns a
 * function that ends the guard.
 */
export function guardReply(
  reply: FastifyReply,
  standing: () => Standing,
  refuse: (what: string) => void,
): () => void {
  const before = new Map<string, PropertyDescriptor | undefined>()
  const replace = (name: string, descriptor: PropertyDescriptor): void => {
    before.set(name, Object.getOwnPropertyDescriptor(reply, name))
    Object.defineProperty(reply, name, { ...descriptor, configurable: true })
  }
  const guarded = (name: (typeof SENDS | typeof CHANGES)[number], sends: boolean): void => {
    const original = reply[name] as (...args: unknown[]) => unknown
    replace(name, {
      value(...args: unknown[]) {
        const who = standing()
        if (who === 'outside') return original.apply(reply, args)
        if (who === 'ended') return reply
        if (!sends) return original.apply(reply, args)
        // Noted, not thrown: in one of the handler's timers or callbacks, throwing would end the process.
        refuse(
          `called reply.${name}(). Return what to answer, with reply.code() and reply.header() for the rest: it is ` +
            'sent once the transaction has committed',
        )
        return reply
      },
    })
  }
  for (const name of SENDS) guarded(name, true)
  for (const name of CHANGES) guarded(name, false)
  replace('statusCode', {
    get: () => reply.raw.statusCode,
    set: (status: number) => void reply.code(status),
  })
  const awaited = reply[AWAITS].bind(reply)
  replace(AWAITS, { get: () => (standing() === 'outside' ? awaited : undefined) })
  return () => {
    for (const [name, descriptor] of before) {
      if (descriptor === undefined) Reflect.deleteProperty(reply, name)
      else Object.defineProperty(reply, name, descriptor)
    }
  }
}
