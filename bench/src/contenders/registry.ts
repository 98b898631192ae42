import { riderOf } from '../business.js'
import type { Contender } from '../contender.js'
import { hasRedis } from '../run/start-redis.js'
import { hasAbsurdSchema } from './absurd-schema-file.js'
import type { GuardedVariant } from './guarded.js'
import type { InstrumentedVariant } from './instrumented.js'

/** All contenders. Each is loaded in its own process only, so that no other carries its libraries. */
const loaders = {
  pawl: async () => (await import('./pawl.js')).pawl,
  'pawl-each': async () => (await import('./pawl-each.js')).pawlEach,
  'pawl-fewest': async () => (await import('./pawl-fewest.js')).pawlFewest,
  'pawl-fastify': async () => (await import('./pawl-fastify.js')).pawlFastify,
  'pawl-fastify-cached': async () => (await import('./pawl-fastify-cached.js')).pawlFastifyCached,
  'hand-written': async () => (await import('./hand-written.js')).handWritten,
  'hand-written-fastify': async () => (await import('./hand-written-fastify.js')).handWrittenFastify,
  original: async () => (await import('./original.js')).original,
  'no-idempotency': async () => (await import('./no-idempotency.js')).noIdempotency,
  dbos: async () => (await import('./dbos.js')).dbos,
  openworkflow: async () => (await import('./openworkflow.js')).openworkflow,
  restate: async () => (await import('./restate.js')).restate,
  absurd: async () => (await import('./absurd.js')).absurd,
  'select-route': async () => (await import('./select-route.js')).selectRoute,
} satisfies Record<string, () => Promise<Contender>>

export type ContenderName = keyof typeof loaders

/**
 * Pawl with separate tables, plain or partitioned, for scenarios that compare Pawl with itself: `pawl@growth_0`. Its requests
 * have many scopes, as those of a service do.
 */
export type PawlVariant =
  | `pawl@${string}`
  | `pawl-partitioned@${string}`
  | GuardedVariant
  | InstrumentedVariant

/** Why a contender cannot take part on this machine, or null. */
export function reasonToLeaveOut(name: ContenderName): string | null {
  if (name === 'absurd' && !hasAbsurdSchema()) return 'ABSURD_SQL does not name its schema file'
  if (name === 'pawl-fastify-cached' && !hasRedis())
    return 'there is neither REDIS_URL nor a redis-server on the PATH'
  return null
}

export const contenderNames = Object.keys(loaders) as ContenderName[]

/** The schema of a variant of Pawl. */
export const schemaOfVariant = (variant: PawlVariant): string =>
  `bench_${variant.replaceAll('-', '_').replace('@', '_')}`

export async function loadContender(name: string): Promise<Contender> {
  if (isContender(name)) return loaders[name]()
  if (name.startsWith('pawl-guarded@')) return loadGuarded(name)
  if (name.startsWith('pawl-instrumented@')) return loadInstrumented(name)
  if (!isVariant(name)) throw new TypeError(`there is no contender '${name}'`)
  const [{ pawlIn }, { FEWEST }] = await Promise.all([import('./pawl.js'), import('./pawl-fewest.js')])
  const layout = name.startsWith('pawl@') ? 'plain' : 'partitioned'
  return pawlIn(schemaOfVariant(name), name, 'Pawl', { ...FEWEST, layout, scopeOf: riderOf })
}

async function loadGuarded(name: string): Promise<Contender> {
  const { isGuardedVariant, pawlGuarded } = await import('./guarded.js')
  if (!isGuardedVariant(name)) throw new TypeError(`there is no contender '${name}'`)
  return pawlGuarded(name, schemaOfVariant(name))
}

async function loadInstrumented(name: string): Promise<Contender> {
  const { isInstrumentedVariant, pawlInstrumented } = await import('./instrumented.js')
  if (!isInstrumentedVariant(name)) throw new TypeError(`there is no contender '${name}'`)
  return pawlInstrumented(name, schemaOfVariant(name))
}

function isContender(name: string): name is ContenderName {
  return Object.hasOwn(loaders, name)
}

function isVariant(name: string): name is PawlVariant {
  return /^pawl(?:-partitioned)?@/.test(name)
}
