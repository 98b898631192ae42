import { aesGcm } from '@pawl/core'
import { riderOf } from '../business.js'
import type { Contender } from '../contender.js'
import { FEWEST } from './pawl-fewest.js'
import { pawlIn, type Way } from './pawl.js'

type Guards = NonNullable<Way['guards']>
type Guarded = Pick<Way, 'guards' | 'settings' | 'scopeOf'>

/** So many that no request of a run is refused. */
const LIMITS: Guards = { limits: { newKeys: { max: 1_000_000, perMs: 60_000 }, unfinished: 1_000 } }

const PROTECTION: Guards = {
  protect: aesGcm({ keys: { k1: Buffer.alloc(32, 1) } }),
  hashSecret: 'a secret of 32 characters or more',
}

/** Requests of thousands of scopes, unless they are of one. */
const guarded = {
  off: { guards: {}, scopeOf: riderOf },
  'off-one-scope': { guards: {} },
  limits: { guards: LIMITS, scopeOf: riderOf },
  'limits-one-scope': { guards: LIMITS },
  protect: { guards: PROTECTION, scopeOf: riderOf },
  all: { guards: { ...LIMITS, ...PROTECTION }, settings: { wipe: 'input' }, scopeOf: riderOf },
} satisfies Record<string, Guarded>

type GuardedName = keyof typeof guarded

/** Pawl with some of its guard rails on, in tables of its own. */
export type GuardedVariant = `pawl-guarded@${GuardedName}`

const PREFIX = 'pawl-guarded@'

export function isGuardedVariant(name: string): name is GuardedVariant {
  return name.startsWith(PREFIX) && Object.hasOwn(guarded, name.slice(PREFIX.length))
}

export function pawlGuarded(variant: GuardedVariant, schema: string): Contender {
  const { settings, ...way }: Guarded = guarded[variant.slice(PREFIX.length) as GuardedName]
  return pawlIn(schema, variant, 'Pawl', { ...FEWEST, ...way, settings: { ...FEWEST.settings, ...settings } })
}
