import { AsyncLocalStorage } from 'node:async_hooks'

const clock = new AsyncLocalStorage<number>()

/** Runs work on a machine whose clock is off: `Date` tells another time to it, and to nobody else. */
export async function skewed<T>(skewMs: number, work: () => Promise<T>): Promise<T> {
  if (skewMs === 0) return work()
  const RealDate = globalThis.Date
  const nowMs = (): number => RealDate.now() + (clock.getStore() ?? 0)
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, parameters, newTarget) =>
      Reflect.construct(target, parameters.length === 0 ? [nowMs()] : parameters, newTarget) as object,
    get: (target, name, receiver) =>
      name === 'now' ? nowMs : (Reflect.get(target, name, receiver) as unknown),
  })
  try {
    return await clock.run(skewMs, work)
  } finally {
    globalThis.Date = RealDate
  }
}
