import type { Scene } from '../cast/scene.js'
import { BYSTANDER, type History, type Leftovers } from '../history.js'

/** All that is known of the scene. What a bystander wrote is undone by now; the provider still has its requests. */
export async function collectHistory(scene: Scene, completerRounds: number | null): Promise<History> {
  const { database, provider } = scene.theatre
  return {
    commits: await database.commitsSince(scene.mark),
    lost: scene.lost,
    calls: scene.calls,
    told: scene.told,
    deliveries: scene.deliveries,
    leftovers: await findLeftovers(scene),
    requests: (provider?.history() ?? []).filter(({ actor }) => actor !== BYSTANDER),
    completerRounds,
  }
}

async function findLeftovers(scene: Scene): Promise<Leftovers> {
  const { database, pools, rejections } = scene.theatre
  const backends = await database.backends()
  return {
    lostClients: pools.lostClients(),
    openTransactions: backends
      .filter(({ state }) => state?.startsWith('idle in transaction'))
      .map(({ actor, query }) => ({ actor, query })),
    unhandledRejections: rejections.splice(0),
  }
}
