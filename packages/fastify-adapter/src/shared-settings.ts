import {
  checkKnownOptions,
  checkOneOf,
  checkWholeNumber,
  invalidOption,
  type OptionOwner,
} from '@pawl/core/internal'
import { MAX_WAIT_MS } from './limits.js'
import type { KeyScope, OnConflict, SharedOptions } from './options.js'
import { readSentAt, type SentAtSettings } from './sent-at.js'

/** What a route inherits from the plugin, with defaults filled in. */
export interface SharedSettings {
  readonly keyScope: KeyScope
  /** How long a duplicate waits for the first request. With 0, it is answered with 409 at once. */
  readonly waitMs: number
  /** Null where nobody asks when a request was first sent. */
  readonly sentAt: SentAtSettings | null
}

/** Checks those options, of the plugin or of a route. */
export function readSharedOptions(
  owner: OptionOwner,
  options: SharedOptions,
  defaults: SharedSettings & { readonly header: string },
): SharedSettings {
  const { keyScope, onConflict, sentAt } = options
  checkOneOf(owner, 'keyScope', keyScope, ['account', 'route'])
  return {
    keyScope: keyScope ?? defaults.keyScope,
    waitMs: onConflict === undefined ? defaults.waitMs : readWait(owner, onConflict),
    sentAt: sentAt === undefined ? defaults.sentAt : readSentAt(owner, sentAt, defaults.header),
  }
}

function readWait(owner: OptionOwner, onConflict: OnConflict): number {
  if (onConflict === 'reject') return 0
  if (typeof onConflict !== 'object' || onConflict === null)
    throw invalidOption(owner, 'onConflict', onConflict, "'reject' or { waitMs }")
  const within: OptionOwner = { ...owner, where: `${owner.where}: onConflict` }
  checkKnownOptions(within, onConflict, ['waitMs'])
  checkWholeNumber(within, 'waitMs', onConflict.waitMs ?? null, 1, MAX_WAIT_MS)
  return onConflict.waitMs
}
