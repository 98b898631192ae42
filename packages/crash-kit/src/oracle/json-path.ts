/** Where a value is: names of members, and indexes. */
export type Path = readonly (string | number)[]

/** Without indexes, which do not count: `tables.rides.id`. */
export function nameOf(path: Path): string {
  return namesIn(path).join('.')
}

export function namesIn(path: Path): string[] {
  return path.filter((step) => typeof step === 'string')
}

/** With them: `tables.rides[0].id`. */
export function placeOf(path: Path): string {
  return path
    .map((step, at) => (typeof step === 'number' ? `[${step}]` : at === 0 ? step : `.${step}`))
    .join('')
}
