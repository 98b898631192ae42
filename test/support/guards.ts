import * as shipped from '@pawl/core'
import type { EngineOptions, FingerprintSecret, ProtectedPlace, Protection, SealedValue } from '@pawl/core'
import { Opening, type RowName, type SealedColumn } from '@pawl/core/internal'
import { HostileCache } from './hostile-cache.js'

/** `PAWL_GUARDS=on` runs the tests of crashes, random pipelines and broken engines on engines with all guard rails on. */
export const IS_GUARDED = process.env['PAWL_GUARDS'] === 'on'

/** What requests are bound to. */
export const BOUND = IS_GUARDED ? ({ bindTo: 'session-1' } as const) : {}

/** More than any test needs, and few enough that somebody who takes them for nothing is noticed. */
const RATE = { max: 2_000, perMs: 24 * 3_600_000 } as const
const OF_PIPELINE = { newKeys: RATE, unfinished: 500, storedBytes: 1_000_000_000 } as const
const LIMITS = { ...OF_PIPELINE, lookups: RATE } as const

/**
 * A key is rotated between any two values: each is sealed with the other key than the one before. Fingerprints stay with one key:
 * a request that a failover has lost gets the same provider key again only under the same.
 */
class RotatingKeys implements Protection {
  readonly #codecs: readonly [Protection, Protection]
  #turn = 0

  constructor({ aesGcm }: Pick<typeof shipped, 'aesGcm'>) {
    const keys = { 'key-1': Buffer.alloc(32, 1), 'key-2': Buffer.alloc(32, 2) }
    const perScope = true
    this.#codecs = [
      aesGcm({ keys, current: 'key-1', perScope }),
      aesGcm({ keys, current: 'key-2', perScope }),
    ]
  }

  seal(plain: Uint8Array, at: ProtectedPlace): SealedValue {
    return this.#next.seal(plain, at)
  }

  open(sealed: SealedValue, at: ProtectedPlace): Uint8Array {
    return this.#codecs[0].open(sealed, at)
  }

  fingerprintSecret(keyId: string | null): FingerprintSecret | null {
    return this.#codecs[0].fingerprintSecret(keyId)
  }

  get #next(): Protection {
    return this.#codecs[this.#turn++ % 2] as Protection
  }
}

/** JSON as an engine has written it: opened if it is sealed. */
export function openedJson(of: RowName, column: SealedColumn, json: string): string {
  const opening = new Opening({ protection: new RotatingKeys(shipped) }, of)
  const opened = opening.json(column, json, '')
  if (opening.failed !== null) throw opening.failed
  return opened
}

type Guards = Pick<
  EngineOptions<never>,
  'protect' | 'hashSecret' | 'limits' | 'cache' | 'breaker' | 'afterExpiry' | 'defaults'
>

/** All guard rails of an engine. `core`: the copy of @pawl/core that the engine comes from. */
export function allGuards(core: Pick<typeof shipped, 'aesGcm'> = shipped): Guards {
  return {
    protect: new RotatingKeys(core),
    hashSecret: 'the secret of those who test engines',
    limits: LIMITS,
    cache: new HostileCache(),
    // It opens at the first failure, and looks again at once.
    breaker: { failures: 1, probeMs: 1 },
    afterExpiry: 'refuse',
    defaults: { wipe: 'input', limits: OF_PIPELINE },
  }
}

/** Options of an engine, with all guard rails on where `PAWL_GUARDS=on`. What a test sets itself stays as it is. */
export function guarded<Options extends object>(
  options: Options,
  core?: Pick<typeof shipped, 'aesGcm'>,
): Options & Partial<Guards> {
  if (!IS_GUARDED) return options
  const guards = allGuards(core)
  const { defaults } = options as Pick<EngineOptions<never>, 'defaults'>
  return { ...guards, ...options, defaults: { ...guards.defaults, ...defaults } }
}
