/** A round of a started service returns its counts beside other things. */
export function isAnnounced(value: unknown): value is { readonly counts: unknown } {
  return typeof value === 'object' && value !== null && 'counts' in value
}

export function countsOf(value: unknown): Record<string, number> {
  const counts: unknown = isAnnounced(value) ? value.counts : value
  if (typeof counts !== 'object' || counts === null) return {}
  return Object.fromEntries(
    Object.entries(counts).filter((entry): entry is [string, number] => typeof entry[1] === 'number'),
  )
}

export const didSomething = (counts: Readonly<Record<string, number>>): boolean =>
  Object.values(counts).some((count) => count > 0)
