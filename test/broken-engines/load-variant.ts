import { LOADED_KEY, type LoadedPatch } from './patch-source.js'
import { patchesOf, type ScenarioVariantName, type VariantName } from './variants.js'

export type Core = typeof import('@pawl/core')
type CoreInternal = typeof import('@pawl/core/internal')
type CrashKit = typeof import('@pawl/crash-kit')

/** An engine with everything that has to come from the same sources. */
export interface EngineUnderTest {
  readonly core: Core
  readonly internal: CoreInternal
  /** The crash kit on this core. It is loaded on demand, because most tests do without it. */
  readonly kit: () => Promise<CrashKit>
}

/** Loads a broken engine beside the right one and all other broken ones. */
export async function loadVariant(name: VariantName | ScenarioVariantName): Promise<EngineUnderTest> {
  const engine = await load(`?broken=${name}`)
  const loaded = loadedPatches().filter(({ variant }) => variant === name)
  for (const { file } of patchesOf(name).replacements) {
    if (loaded.some((each) => each.file === file)) continue
    throw new Error(`Broken engine '${name}': ${file} was patched, but @pawl/core does not load it.`)
  }
  return engine
}

/** The engine as it is, in the same form. */
export function loadUnbroken(): Promise<EngineUnderTest> {
  return load('')
}

/** Every patched module that has run in this process. */
export function loadedPatches(): readonly LoadedPatch[] {
  const known = globalThis as unknown as Record<symbol, LoadedPatch[] | undefined>
  return known[Symbol.for(LOADED_KEY)] ?? []
}

async function load(query: string): Promise<EngineUnderTest> {
  return {
    core: (await import(/* @vite-ignore */ `@pawl/core${query}`)) as Core,
    internal: (await import(/* @vite-ignore */ `@pawl/core/internal${query}`)) as CoreInternal,
    kit: async () => (await import(/* @vite-ignore */ `@pawl/crash-kit${query}`)) as CrashKit,
  }
}
