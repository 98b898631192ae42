import type { Patches } from './variant.js'

/** Where a patched module reports that it has been loaded. */
export const LOADED_KEY = 'pawl.test.broken-engines.loaded'

/** A patched module that has really run, and the variant in whose graph it did. */
export interface LoadedPatch {
  readonly variant: string
  readonly file: string
}

/** The source of a file of core as a variant has it. */
export function patchSource(variant: Patches, file: string, source: string): string {
  const replacements = variant.replacements.filter((each) => each.file === file)
  if (replacements.length === 0) return source
  const patched = replacements.reduce((text, { from, to }) => {
    const found = text.split(from).length - 1
    // It is a function, because `$` has a meaning in a replacement text.
    if (found === 1) return text.replace(from, () => to)
    throw new Error(
      `Broken engine '${variant.name}': ${file} contains the text to replace ${found} times instead of once:\n${from}\n` +
        'The source has changed: rewrite the variant, in test/broken-engines.',
    )
  }, source)
  return `${patched}\n${sayLoaded(variant.name, file)}`
}

function sayLoaded(variant: string, file: string): string {
  const said = JSON.stringify({ variant, file })
  return `;(globalThis[Symbol.for('${LOADED_KEY}')] ??= []).push(${said});\n`
}
