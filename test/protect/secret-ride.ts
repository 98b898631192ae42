import { aesGcm, type JsonValue, pawl, respond, retryLater } from '@pawl/core'

/** Nothing of this may be found in the clear. */
export const SECRET = 'zebra at 52.5163, 13.3777'

const KEY_1 = Buffer.alloc(32, 1)
export const KEY_2 = Buffer.alloc(32, 2)

/** What an engine protects with; and one that has the next key as well, and one that uses it. */
export const protect = aesGcm({ keys: { k1: KEY_1 } })
export const protectBoth = aesGcm({ keys: { k1: KEY_1, k2: KEY_2 }, current: 'k1' })
export const protectNext = aesGcm({ keys: { k1: KEY_1, k2: KEY_2 }, current: 'k2' })
export const protectOther = aesGcm({ keys: { k2: KEY_2 } })

export type Way =
  | 'finishes'
  /** The call returns, and settling it fails for now. */
  | 'settle_fails'
  /** The same, in a way that nobody expected. */
  | 'settle_throws'
  /** Before its call, for now. */
  | 'fails'
  /** Nobody knows what came of its call. */
  | 'unknown'

export interface SecretInput {
  readonly way: Way
  readonly secret: JsonValue
}

const { pipeline, createEngine } = pawl<object>()
export { createEngine, pipeline }

/** A pipeline that puts its secret wherever there is room for one. */
export const secretRide = pipeline<SecretInput>({ name: 'secret-ride', version: 1, maxAttempts: 2 })
  .local('noted', ({ input: { way, secret } }) => {
    if (way === 'fails') throw new Error(`no ride for ${JSON.stringify(secret)}`)
    return { way, kept: secret }
  })
  .foreign('called', {
    guarantee: 'at_most_once',
    call: ({ state: { way, kept } }) => {
      if (way === 'unknown') throw new Error(`no answer about ${JSON.stringify(kept)}`)
      return Promise.resolve({ found: kept })
    },
    settle: ({ state: { way }, result }) => {
      if (way === 'settle_fails') return retryLater(new Error(`not now: ${JSON.stringify(result.found)}`))
      if (way === 'settle_throws') throw new Error(`not like this: ${JSON.stringify(result.found)}`)
      return { settled: result.found }
    },
  })
  .finish(async ({ state, stage }) => {
    await stage('send', { to: state.settled })
    return respond(
      201,
      { secret: state.settled },
      { headers: { 'x-secret': JSON.stringify(state.kept).slice(0, 99) } },
    )
  })
