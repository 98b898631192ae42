import { AsyncLocalStorage } from 'node:async_hooks'

const clock = new AsyncLocalStorage<number>()
const RealDate = globalThis.Date
const nowMs = (): number => RealDate.now() + (clock.getStore() ?? 0)

/** Returns the time of whoever asks. */
const SkewedDate = new Proxy(RealDate, {
  construct: (target, parameters, newTarget) =>
    Reflect.construct(target, parameters.length === 0 ? [nowMs()] : parameters, newTarget) as object,
  get: (target, name, receiver) =>
    name === 'now' ? nowMs : (Reflect.get(target, name, receiver) as unknown),
})

/** How many callers run on a skewed clock. After the last one, `Date` is the real one again. */
let running = 0

/** Runs work as on a machine whose clock is off: `Date` returns another time to it, and to nobody else. */
export async function withSkewedClock<T>(skewMs: number, work: () => Promise<T>): Promise<T> {
  if (skewMs === 0) return work()
  if (running++ === 0) globalThis.Date = SkewedDate
  try {
    return await clock.run(skewMs, work)
  } finally {
    if (--running === 0) globalThis.Date = RealDate
  }
}
