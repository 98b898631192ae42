/** Errors as SDKs, proxies and bugs make them: what should be text is not, or throws when it is read. */
export const unreadableErrors = (): Readonly<Record<string, unknown>> => ({
  'with an object as its message': withMember('message', { code: 'declined' }),
  'with an object without a prototype as its message': withMember('message', Object.create(null)),
  'with null as its message': withMember('message', null),
  'with a number as its message': withMember('message', 7),
  'with a symbol as its message': withMember('message', Symbol('s')),
  'with a name that is no text': withMember('name', { toString: throwing }),
  'with a symbol as its name': withMember('name', Symbol('n')),
  'with a code that is no text': withMember('code', Symbol('c')),
  'with a stack that is no text': withMember('stack', 5),
  'with a constructor that is none': withMember('constructor', Symbol('k')),
  'with a cause whose message is no text': new Error('x', { cause: withMember('message', {}) }),
  'with members that are no array': Object.assign(new AggregateError([], ''), { errors: 5 }),
  'that aggregates itself': aggregatingItself(),
  'that aggregates what cannot be read': new AggregateError([withMember('message', {}), revoked()], ''),
  ...Object.fromEntries(
    ['message', 'name', 'code', 'status', 'cause', 'stack', 'constructor', 'errors', 'severity'].map(
      (member) => [
        `whose ${member} throws when it is read`,
        Object.defineProperty(new Error(''), member, { get: throwing }),
      ],
    ),
  ),
  'that is a proxy which throws': new Proxy(new Error('p'), { get: throwing, has: throwing }),
  'that is a proxy which does not even tell its type': new Proxy(new Error('p'), {
    get: throwing,
    has: throwing,
    getPrototypeOf: throwing,
  }),
  'that is a revoked proxy': revoked(),
  'that is an object without a prototype': Object.create(null),
  'that is a symbol': Symbol('thrown'),
  'that is a function': () => {},
})

function throwing(): never {
  throw new Error('not to be read')
}

function withMember(member: string, value: unknown): Error {
  return Object.defineProperty(new Error('x'), member, { value })
}

function aggregatingItself(): Error {
  const error = new AggregateError([], '')
  error.errors.push(error, error)
  return error
}

function revoked(): unknown {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}
