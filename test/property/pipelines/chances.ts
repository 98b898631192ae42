/**
 * How often each trouble of a plan has struck. It belongs to the test, not to an engine or the database: neither a rollback
 * nor the death of an engine makes it forget.
 */
export class Chances {
  readonly #taken = new Map<string, number>()
  readonly #refused = new Map<string, Set<string>>()

  /** Returns true the first `times` times that it is asked about this trouble of this request. */
  strikes(keyId: string, trouble: string, times: number): boolean {
    const name = `${keyId} ${trouble}`
    const taken = this.#taken.get(name) ?? 0
    if (taken >= times) return false
    this.#taken.set(name, taken + 1)
    return true
  }

  /** Acts like a provider that keeps its refusals: the first `times` provider keys are refused, and stay refused. */
  refuses(keyId: string, trouble: string, providerKey: string, times: number): boolean {
    const name = `${keyId} ${trouble}`
    const refused = this.#refused.get(name) ?? new Set()
    this.#refused.set(name, refused)
    if (refused.size < times) refused.add(providerKey)
    return refused.has(providerKey)
  }
}
