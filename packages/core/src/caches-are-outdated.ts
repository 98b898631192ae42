import { setTimeout as delay } from 'node:timers/promises'
import { CACHE_EPOCH_MAX_AGE_MS, CACHE_EPOCH_SLACK_MS } from './limits.js'

/** Resolves when no engine can still go by an epoch that was raised before. Nobody asks them: each asks by itself, in time. */
export const cachesAreOutdated = (): Promise<void> => delay(CACHE_EPOCH_MAX_AGE_MS + CACHE_EPOCH_SLACK_MS)
