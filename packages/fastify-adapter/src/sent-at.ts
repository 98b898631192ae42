import { checkKnownOptions, checkWholeNumber, invalidOption, type OptionOwner } from '@pawl/core/internal'
import { checkBoolean } from './check-boolean.js'
import { readHeaderName } from './header-name.js'
import { DEFAULT_MAX_SKEW_MS, FOREVER_MS } from './limits.js'

/**
 * A header that says when the client first sent the request.
 *
 * @example
 * sentAt: { maxAgeMs: 20 * 3_600_000, required: true }
 */
export interface SentAtOptions {
  /** Name of the header. Default `idempotency-sent-at`. */
  readonly header?: string
  /**
   * A request that was first sent longer ago is refused. Where this and `maxSkewMs` together are less than the retention of
   * the keys, no request runs again once its key has been deleted.
   */
  readonly maxAgeMs: number
  /** How far the header may be ahead of this process's clock. Default 5 min. */
  readonly maxSkewMs?: number
  /** Whether a request with a key but without this header is refused. Default `false`. */
  readonly required?: boolean
}

/** The options with defaults filled in. */
export interface SentAtSettings {
  readonly header: string
  readonly maxAgeMs: number
  readonly maxSkewMs: number
  readonly required: boolean
}

/**
 * Refuses a time that is accepted for as long as keys are kept, or longer: then a retry whose key has been deleted is not too old.
 * `route`: its name. `retentionMs`: how long keys are kept; null where that is not known.
 */
export function checkRetention(
  route: string,
  { maxAgeMs, maxSkewMs }: SentAtSettings,
  retentionMs: number | null,
): void {
  if (retentionMs === null || maxAgeMs + maxSkewMs < retentionMs) return
  throw invalidOption(
    { code: 'PAWL_INVALID_OPTION', where: `idempotency of ${route}` },
    'sentAt',
    `{ maxAgeMs: ${maxAgeMs}, maxSkewMs: ${maxSkewMs} }`,
    `less than retentionMs (${retentionMs}) for both together, or a request would run again whose key has been deleted`,
  )
}

const DEFAULT_HEADER = 'idempotency-sent-at'

/** Checks the option, of the plugin or of a route. Returns null where it is off. */
export function readSentAt(
  owner: OptionOwner,
  option: SentAtOptions | false,
  keyHeader: string,
): SentAtSettings | null {
  if (option === false) return null
  if (typeof option !== 'object' || option === null)
    throw invalidOption(owner, 'sentAt', option, 'false or { maxAgeMs }')
  const within: OptionOwner = { ...owner, where: `${owner.where}: sentAt` }
  checkKnownOptions(within, option, ['header', 'maxAgeMs', 'maxSkewMs', 'required'])
  const { maxAgeMs, maxSkewMs = DEFAULT_MAX_SKEW_MS, required = false } = option
  checkWholeNumber(within, 'maxAgeMs', maxAgeMs ?? null, 1, FOREVER_MS)
  checkWholeNumber(within, 'maxSkewMs', maxSkewMs, 0, FOREVER_MS)
  checkBoolean(within, 'required', required)
  const header = readHeaderName(within, 'header', option.header ?? DEFAULT_HEADER)
  if (header === keyHeader)
    throw invalidOption(within, 'header', header, 'another header than that of the key')
  return { header, maxAgeMs, maxSkewMs, required }
}
