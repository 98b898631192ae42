/**
 * How often each trouble of a plan has struck. It belongs to the test, not to an engine or the database: what is rolled
 * back, and an engine that dies, forget nothing here.
 */
export class Chances {
  readonly #taken = new Map<string, number>()
  readonly #refused = new Map<string, Set<string>>()

  /** True the first so many times it is asked about this trouble of this request. */
  strikes(keyId: string, trouble: string, times: number): boolean {
    const name = `${keyId} ${trouble}`
    const taken = this.#taken.get(name) ?? 0
    if (taken >= times) return false
    this.#taken.set(name, taken + 1)
    return true
  }

  /** As a provider does that keeps its refusals: the first so many provider keys are refused, and stay so. */
  refuses(keyId: string, trouble: string, providerKey: string, times: number): boolean {
    const name = `${keyId} ${trouble}`
    const refused = this.#refused.get(name) ?? new Set()
    this.#refused.set(name, refused)
    if (refused.size < times) refused.add(providerKey)
    return refused.has(providerKey)
  }
}
