import { aesGcm, type EngineOptions } from '@pawl/core'
import type { Config } from './config.js'
import type { Database } from './database.js'

type Guarded = Pick<EngineOptions<Database>, 'afterExpiry' | 'protect' | 'defaults'>

/** What the environment asks of an engine. What it does not ask for is off. */
export function guardOptions({ afterExpiry, protectKey, leaseMs, retentionMs, wipe }: Config): Guarded {
  return {
    afterExpiry,
    ...(protectKey === null ? {} : { protect: aesGcm(protectKey) }),
    defaults: {
      wipe,
      ...(leaseMs === null ? {} : { leaseMs }),
      ...(retentionMs === null ? {} : { retentionMs }),
    },
  }
}

const MINUTE_MS = 60_000

/** How much a rider may have. The worker's engine has no such limits: its scope is the queue. */
export function limitOptions({
  limitNewPerMinute: max,
  limitUnfinished: unfinished,
}: Config): Pick<EngineOptions<Database>, 'limits'> {
  if (max === null && unfinished === null) return {}
  return {
    limits: {
      ...(max === null ? {} : { newKeys: { max, perMs: MINUTE_MS } }),
      ...(unfinished === null ? {} : { unfinished }),
    },
  }
}
