import type { JsonValue } from '../pipeline/json-value.js'
import { isPseudonym, type Pseudonyms } from '../pseudonyms.js'
import type { BoundedCount, EffectView } from './operator.js'

/** A span of time, `to` not included. */
export interface ReconcileWindow {
  readonly from: Date
  readonly to: Date
}

/** One effect as the provider knows it. */
export interface ProviderRecord {
  /** The provider's own name for it, such as a charge's id. */
  readonly reference: string
  /** The idempotency key it was made under, if the provider reports it. */
  readonly providerKey?: string | null
  /** When it happened there. */
  readonly at: Date
  /** Whatever helps whoever reads the report, or `differs`. */
  readonly detail?: JsonValue
}

/** Effects and records that belong together but do not agree. */
export interface Difference {
  readonly kind:
    /** The provider has the same key under another reference. */
    | 'reference'
    /** Two records there under one key: the effect happened twice. Or two effects here for one record: it was lost once. */
    | 'double'
    /** What `differs` said. */
    | 'content'
  readonly detail: string
  readonly effects: readonly EffectView[]
  readonly records: readonly ProviderRecord[]
}

/** How the two sides compare. */
export interface ReconcileReport {
  /** Records of the window that have their effect here and agree with it. */
  readonly matched: number
  /** Records of the window without an effect here: look at `unfinished` before you worry. */
  readonly missingHere: readonly ProviderRecord[]
  /** Effects of the window without a record there. */
  readonly missingThere: readonly EffectView[]
  /** Reported if any part of the difference lies in the window. */
  readonly different: readonly Difference[]
  /** Effects of the window that cannot be matched: they have no reference, and no record has a provider key. */
  readonly unmatchable: readonly EffectView[]
  /** Keys from before the window's end that are not finished: their calls may be what is missing here. */
  readonly unfinished: BoundedCount
}

/** What the user says about an effect and a record that belong together. */
export type Differs = (
  effect: EffectView,
  record: ProviderRecord,
) => string | null | undefined | Promise<string | null | undefined>

/** The effects of the widened window, and which of them have met a record. */
export class Effects {
  readonly all: EffectView[] = []
  readonly met = new Set<EffectView>()
  readonly #byReference = new Map<string, EffectView[]>()
  readonly #byProviderKey = new Map<string, EffectView[]>()
  readonly #pseudonyms: Pseudonyms | null

  /** `pseudonyms`: what erased references were replaced with; null where nobody can tell. */
  constructor(pseudonyms: Pseudonyms | null = null) {
    this.#pseudonyms = pseudonyms
  }

  add(effect: EffectView): void {
    this.all.push(effect)
    if (effect.reference !== null) push(this.#byReference, effect.reference, effect)
    push(this.#byProviderKey, effect.providerKey, effect)
  }

  ofReference(reference: string): readonly EffectView[] {
    return (
      this.#byReference.get(reference) ??
      (this.#pseudonyms === null
        ? []
        : (this.#byReference.get(this.#pseudonyms.ofReference(reference)) ?? []))
    )
  }

  /** Whether a record could be found by the effect's reference. */
  hasReference({ reference }: EffectView): boolean {
    return reference !== null && (this.#pseudonyms !== null || !isPseudonym(reference))
  }

  ofProviderKey(providerKey: string | null | undefined): readonly EffectView[] {
    return providerKey == null ? [] : (this.#byProviderKey.get(providerKey) ?? [])
  }
}

/** The provider's records: each reference once, and those of one provider key together. */
export class Records {
  readonly #references = new Set<string>()
  readonly #byProviderKey = new Map<string, ProviderRecord[]>()
  readonly #withoutKey: ProviderRecord[] = []

  add(record: ProviderRecord): void {
    // A list that is read page by page may contain a record twice.
    if (this.#references.has(record.reference)) return
    this.#references.add(record.reference)
    if (record.providerKey == null) this.#withoutKey.push(record)
    else push(this.#byProviderKey, record.providerKey, record)
  }

  /** Whether an effect that has no reference could be found at all. */
  get canTellByProviderKey(): boolean {
    return this.#byProviderKey.size > 0 || this.#withoutKey.length === 0
  }

  *groups(): Iterable<readonly [ProviderRecord, ...ProviderRecord[]]> {
    for (const record of this.#withoutKey) yield [record]
    for (const [first, ...more] of this.#byProviderKey.values()) if (first) yield [first, ...more]
  }
}

/** Goes through the records, and reports where the two sides do not agree. */
export class Comparison {
  readonly #effects: Effects
  readonly #records: Records
  readonly #window: ReconcileWindow
  readonly #differs: Differs | undefined
  readonly #missingHere: ProviderRecord[] = []
  readonly #different: Difference[] = []
  #matched = 0

  constructor(effects: Effects, records: Records, window: ReconcileWindow, differs: Differs | undefined) {
    this.#effects = effects
    this.#records = records
    this.#window = window
    this.#differs = differs
  }

  async compare(): Promise<void> {
    for (const group of this.#records.groups()) {
      if (group.length > 1) this.#double(group)
      else await this.#single(group[0])
    }
  }

  report(): Omit<ReconcileReport, 'unfinished'> {
    const unmet = this.#effects.all.filter(
      (effect) => !this.#effects.met.has(effect) && this.#isWithin(effect),
    )
    const canBeTold = (effect: EffectView): boolean =>
      this.#effects.hasReference(effect) || this.#records.canTellByProviderKey
    return {
      matched: this.#matched,
      missingHere: this.#missingHere,
      missingThere: unmet.filter(canBeTold),
      different: this.#different,
      unmatchable: unmet.filter((effect) => !canBeTold(effect)),
    }
  }

  #double(records: readonly ProviderRecord[]): void {
    const effects = new Set(
      records.flatMap(({ reference, providerKey }) => [
        ...this.#effects.ofReference(reference),
        ...this.#effects.ofProviderKey(providerKey),
      ]),
    )
    const references = records.map(({ reference }) => reference).join(', ')
    this.#differ(
      'double',
      `One provider key has ${records.length} records: ${references}.`,
      [...effects],
      records,
    )
    if (effects.size > 0) return
    this.#missingHere.push(...records.filter((record) => this.#isWithin(record)))
  }

  async #single(record: ProviderRecord): Promise<void> {
    const { reference, providerKey } = record
    const named = this.#effects.ofReference(reference)
    const effects = named.length > 0 ? named : this.#effects.ofProviderKey(providerKey)
    const [effect] = effects
    if (effect === undefined) {
      if (this.#isWithin(record)) this.#missingHere.push(record)
      return
    }
    if (named.length > 1) {
      const detail = `${named.length} effects here have the same reference: '${reference}'. The provider did it once.`
      this.#differ('double', detail, named, [record])
      return
    }
    if (named.length === 0 && effects.every((each) => this.#effects.hasReference(each))) {
      const detail = `The reference is '${effect.reference}' here and '${reference}' there, under the same provider key.`
      this.#differ('reference', detail, effects, [record])
      return
    }
    for (const each of effects) this.#effects.met.add(each)
    if (![record, ...effects].some((each) => this.#isWithin(each))) return
    const said = (await this.#differs?.(effect, record)) ?? null
    if (said !== null) this.#differ('content', said, effects, [record])
    else if (this.#isWithin(record)) this.#matched++
  }

  #differ(
    kind: Difference['kind'],
    detail: string,
    effects: readonly EffectView[],
    records: readonly ProviderRecord[],
  ): void {
    for (const effect of effects) this.#effects.met.add(effect)
    if (![...effects, ...records].some((each) => this.#isWithin(each))) return
    this.#different.push({ kind, detail, effects, records })
  }

  #isWithin({ at }: { readonly at: Date }): boolean {
    return at >= this.#window.from && at < this.#window.to
  }
}

function push<T>(map: Map<string, T[]>, key: string, value: T): void {
  const there = map.get(key)
  if (there === undefined) map.set(key, [value])
  else there.push(value)
}
