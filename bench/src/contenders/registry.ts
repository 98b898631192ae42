import type { Contender } from '../contender.js'

/** All contenders. Each is loaded in its own process only, so that no other carries its libraries. */
const loaders = {
  pawl: async () => (await import('./pawl.js')).pawl,
  'pawl-fastify': async () => (await import('./pawl-fastify.js')).pawlFastify,
  'hand-written': async () => (await import('./hand-written.js')).handWritten,
  original: async () => (await import('./original.js')).original,
  'no-idempotency': async () => (await import('./no-idempotency.js')).noIdempotency,
  dbos: async () => (await import('./dbos.js')).dbos,
  openworkflow: async () => (await import('./openworkflow.js')).openworkflow,
  'select-route': async () => (await import('./select-route.js')).selectRoute,
} satisfies Record<string, () => Promise<Contender>>

export type ContenderName = keyof typeof loaders

/** Pawl with tables of its own, for scenarios that compare Pawl with itself: `pawl@growth_0`. */
export type PawlVariant = `pawl@${string}`

export const contenderNames = Object.keys(loaders) as ContenderName[]

/** The schema of a variant of Pawl. */
export const schemaOfVariant = (variant: PawlVariant): string => `bench_pawl_${variant.slice('pawl@'.length)}`

export async function loadContender(name: string): Promise<Contender> {
  if (isContender(name)) return loaders[name]()
  if (!isVariant(name)) throw new TypeError(`there is no contender '${name}'`)
  const { pawlIn } = await import('./pawl.js')
  return pawlIn(schemaOfVariant(name), name, 'Pawl')
}

function isContender(name: string): name is ContenderName {
  return Object.hasOwn(loaders, name)
}

function isVariant(name: string): name is PawlVariant {
  return name.startsWith('pawl@')
}
