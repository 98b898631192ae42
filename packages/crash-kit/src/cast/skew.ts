import { AsyncLocalStorage } from 'node:async_hooks'

const clock = new AsyncLocalStorage<number>()
const RealDate = globalThis.Date
const nowMs = (): number => RealDate.now() + (clock.getStore() ?? 0)

/** Tells the time of whoever asks. */
const SkewedDate = new Proxy(RealDate, {
  construct: (target, parameters, newTarget) =>
    Reflect.construct(target, parameters.length === 0 ? [nowMs()] : parameters, newTarget) as object,
  get: (target, name, receiver) =>
    name === 'now' ? nowMs : (Reflect.get(target, name, receiver) as unknown),
})

/** How many run on a clock that is off: with the last one, `Date` is the real one again. */
let running = 0

/** Runs work on a machine whose clock is off: `Date` tells another time to it, and to nobody else. */
export async function skewed<T>(skewMs: number, work: () => Promise<T>): Promise<T> {
  if (skewMs === 0) return work()
  if (running++ === 0) globalThis.Date = SkewedDate
  try {
    return await clock.run(skewMs, work)
  } finally {
    if (--running === 0) globalThis.Date = RealDate
  }
}
