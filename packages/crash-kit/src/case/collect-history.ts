import type { Trial } from '../actors/trial.js'
import { BYSTANDER, type History, type Leftovers } from '../history.js'

/** Collects everything that is known of the trial. What a bystander wrote is undone by now, but the provider has its requests. */
export async function collectHistory(trial: Trial, completerRounds: number | null): Promise<History> {
  const { database, provider } = trial.environment
  const { commits, exposed } = await database.writtenSince(trial.mark)
  return {
    commits,
    exposed,
    lost: trial.lost,
    calls: trial.calls,
    outcomes: trial.outcomes,
    deliveries: trial.deliveries,
    leftovers: await findLeftovers(trial),
    requests: (provider?.history() ?? []).filter(({ actor }) => actor !== BYSTANDER),
    completerRounds,
  }
}

async function findLeftovers(trial: Trial): Promise<Leftovers> {
  const { database, pools, rejections } = trial.environment
  const backends = await database.backends()
  return {
    lostClients: pools.lostClients(),
    openTransactions: backends
      .filter(({ state }) => state?.startsWith('idle in transaction'))
      .map(({ actor, query }) => ({ actor, query })),
    unhandledRejections: rejections.splice(0),
  }
}
