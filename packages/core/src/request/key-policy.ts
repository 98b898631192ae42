import { announce } from '../announce/announce.js'
import { checkKnownOptions, checkOneOf, checkWholeNumber, type OptionOwner } from '../check-option.js'
import { PawlError } from '../errors.js'
import { KEY_WARNING_INTERVAL_MS, MAX_MIN_KEY_LENGTH } from '../limits.js'
import { hasCardNumber, hasEmail, hasPhoneNumber, type Suspicion } from './suspicions.js'

/** What becomes of a key that looks like personal data: refused, stored with a warning, or stored. */
export type KeyAction = 'refuse' | 'warn' | 'allow'

/**
 * Which keys are not stored as they are. A key is in a table, in its indexes and in backups, and should say nothing about
 * anybody.
 *
 * @example
 * createEngine({ pool, pipelines, keyPolicy: { minLength: 16, email: 'refuse' } })
 */
export interface KeyPolicyOptions {
  /** A shorter key is refused: two requests may get the same one. At most 36, the length of a UUID. Default 1. */
  readonly minLength?: number
  /** A card number, as its network hands it out, with the right check digit. Default `refuse`. */
  readonly cardNumber?: KeyAction
  /** Default `warn`. */
  readonly email?: KeyAction
  /** An international number (`+…`), or one that is grouped as in North America. Default `warn`. */
  readonly phoneNumber?: KeyAction
}

/** The options with defaults filled in. */
export type KeyPolicySettings = Required<KeyPolicyOptions>

const ACTIONS = ['refuse', 'warn', 'allow'] as const satisfies readonly KeyAction[]

export function readKeyPolicy(owner: OptionOwner, options: KeyPolicyOptions): KeyPolicySettings {
  const within: OptionOwner = { ...owner, where: `${owner.where}: keyPolicy` }
  checkKnownOptions(within, options, ['minLength', 'cardNumber', 'email', 'phoneNumber'])
  const { minLength = 1, cardNumber = 'refuse', email = 'warn', phoneNumber = 'warn' } = options
  checkWholeNumber(within, 'minLength', minLength, 1, MAX_MIN_KEY_LENGTH)
  checkOneOf(within, 'cardNumber', cardNumber, ACTIONS)
  checkOneOf(within, 'email', email, ACTIONS)
  checkOneOf(within, 'phoneNumber', phoneNumber, ACTIONS)
  return { minLength, cardNumber, email, phoneNumber }
}

const LOOKS: readonly {
  readonly suspicion: Suspicion
  readonly option: keyof Omit<KeyPolicySettings, 'minLength'>
  readonly isIn: (key: string) => boolean
}[] = [
  { suspicion: 'card_number', option: 'cardNumber', isIn: hasCardNumber },
  { suspicion: 'email', option: 'email', isIn: hasEmail },
  { suspicion: 'phone_number', option: 'phoneNumber', isIn: hasPhoneNumber },
]

const WORDS: Readonly<Record<Suspicion, string>> = {
  too_short: 'is shorter than keyPolicy allows',
  card_number: 'looks like a card number',
  email: 'looks like an e-mail address',
  phone_number: 'looks like a phone number',
}

/** Looks at each new request's key before anything is asked of the database. Nothing that it says contains the key. */
export class KeyPolicy {
  readonly #settings: KeyPolicySettings
  readonly #warnedAtMs = new Map<Suspicion, number>()

  constructor(settings: KeyPolicySettings) {
    this.#settings = settings
  }

  /** Returns why the key is refused, or null where it is not. Warns where it should. */
  judge(key: string): Suspicion | null {
    if (key.length < this.#settings.minLength) return 'too_short'
    for (const { suspicion, option, isIn } of LOOKS) {
      const action = this.#settings[option]
      if (action === 'allow' || !isIn(key)) continue
      if (action === 'refuse') return suspicion
      this.#warn(suspicion)
    }
    return null
  }

  check(where: string, key: string): void {
    const suspicion = this.judge(key)
    if (suspicion === null) return
    throw new PawlError(
      'PAWL_UNSUITABLE_KEY',
      `${where}: the key ${WORDS[suspicion]}. A key should be random, such as a UUID; keyPolicy of createEngine decides.`,
    )
  }

  /** A client that does this does it all the time: one warning of each kind is enough for a while. */
  #warn(suspicion: Suspicion): void {
    const nowMs = performance.now()
    const lastMs = this.#warnedAtMs.get(suspicion)
    if (lastMs !== undefined && nowMs - lastMs < KEY_WARNING_INTERVAL_MS) return
    this.#warnedAtMs.set(suspicion, nowMs)
    announce('pawl:warning', () => ({
      message: `a key ${WORDS[suspicion]}, and is stored as it is: let clients send random keys, such as UUIDs`,
      error: null,
    }))
  }
}
