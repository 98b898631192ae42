/** The place of a value: names of members, and indexes. */
export type Path = readonly (string | number)[]

/** Returns the path without indexes, which do not count: `tables.rides.id`. */
export function nameOf(path: Path): string {
  return namesIn(path).join('.')
}

export function namesIn(path: Path): string[] {
  return path.filter((step) => typeof step === 'string')
}

/** Returns the path with indexes: `tables.rides[0].id`. */
export function placeOf(path: Path): string {
  return path
    .map((step, at) => (typeof step === 'number' ? `[${step}]` : at === 0 ? step : `.${step}`))
    .join('')
}
