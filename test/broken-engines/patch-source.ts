import type { Variant } from './variant.js'

/** Where a module that was patched says that it has been loaded. */
export const LOADED_KEY = 'pawl.test.broken-engines.loaded'

/** A patched module that has really run, in the graph of which variant. */
export interface LoadedPatch {
  readonly variant: string
  readonly file: string
}

/** The source of a file of core as a variant has it. */
export function patchSource(variant: Variant, file: string, source: string): string {
  const replacements = variant.replacements.filter((each) => each.file === file)
  if (replacements.length === 0) return source
  const patched = replacements.reduce((text, { from, to }) => {
    const found = text.split(from).length - 1
    // A function, because `$` means something in a replacement text.
    if (found === 1) return text.replace(from, () => to)
    throw new Error(
      `Broken engine '${variant.name}': ${file} has ${found} times, instead of once, the text it is to replace:\n${from}\n` +
        'The source has changed: write the variant anew, in test/broken-engines.',
    )
  }, source)
  return `${patched}\n${sayLoaded(variant.name, file)}`
}

function sayLoaded(variant: string, file: string): string {
  const said = JSON.stringify({ variant, file })
  return `;(globalThis[Symbol.for('${LOADED_KEY}')] ??= []).push(${said});\n`
}
