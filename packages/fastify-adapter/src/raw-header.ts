/** The values of a header in the raw headers, where one that was sent twice is still seen twice. */
export function rawHeader(rawHeaders: readonly string[], name: string): readonly string[] {
  return rawHeaders
    .filter((_, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === name)
    .map(withoutBlanks)
}

/**
 * Removes white space as HTTP defines it. `trim` would also remove a no-break space, and other bytes would then name the
 * same key.
 */
export function withoutBlanks(value: string): string {
  let [start, end] = [0, value.length]
  while (isBlank(value[start])) start++
  while (end > start && isBlank(value[end - 1])) end--
  return value.slice(start, end)
}

function isBlank(character: string | undefined): boolean {
  return character === ' ' || character === '\t'
}
