/** The ANSI codes in use; not every Node 20 has `styleText` in `node:util`. */
const CODES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33 } as const

export type Style = keyof typeof CODES

/** Colours text, or leaves it as it is. */
export type Paint = (style: Style, text: string) => string

export function createPaint(isColoured: boolean): Paint {
  if (!isColoured) return (_style, text) => text
  return (style, text) => (text === '' ? '' : `\u001B[${CODES[style]}m${text}\u001B[0m`)
}

/** Colour is for people who look at a terminal and have not said that they want none (no-color.org). */
export function wantsColour(
  stream: { readonly isTTY?: boolean },
  env: Readonly<Record<string, string | undefined>>,
): boolean {
  return stream.isTTY === true && (env['NO_COLOR'] ?? '') === '' && env['TERM'] !== 'dumb'
}
