import { MAX_COUNTED_LOSS } from '../limits.js'
import { hasCommitted } from './is-committing.js'
import { type Fault, isInPhase } from './fault.js'

/** How many of the last commits are lost. */
type Depth = number | 'all'

const DEPTHS: readonly Depth[] = [...Array.from({ length: MAX_COUNTED_LOSS }, (_, at) => at + 1), 'all']

/** Each position gets a fault for every number of commits that can be lost there: the last one, the last two, …, all. */
function isPossible(depth: Depth, committed: number): boolean {
  return depth === 'all' ? committed > 0 : depth < committed
}

function lossOf(depth: Depth): string {
  if (depth === 'all') return 'loses all commits of the request'
  return depth === 1 ? 'loses the last commit' : `loses the last ${depth} commits`
}

/**
 * An asynchronous replica that does not have the last commits is promoted. The process lives, with everything that it remembers. Its
 * connections are cut, and it goes on with what the new server has.
 */
function failover(depth: Depth): Fault {
  return {
    id: `failover.${depth}`,
    title: `failover that ${lossOf(depth)}`,
    appliesTo: (position, shape, committed = Infinity) =>
      isPossible(depth, committed) &&
      (hasCommitted(position) ||
        (isInPhase(position, shape) && (position.step === 'call' || position.step === 'commit'))),
    async strike({ trial, actor, fired }) {
      actor.disturbed = true
      await trial.environment.database.terminate(actor.name)
      await trial.loseCommits(depth)
      await trial.record('database', `fails over to a replica, and ${lossOf(depth)}`)
      fired()
    },
  }
}

/** The same, but the process is gone with the server. */
function failoverAndCrash(depth: Depth): Fault {
  return {
    id: `failover.crash.${depth}`,
    title: `crash and failover that ${lossOf(depth)}`,
    appliesTo: (position, shape, committed = Infinity) =>
      isPossible(depth, committed) &&
      (hasCommitted(position) ||
        (isInPhase(position, shape) && position.step === 'call' && position.when === 'after')),
    async strike({ trial, actor, fired, cleanUp }) {
      cleanUp(async () => {
        await actor.close()
        await trial.loseCommits(depth)
        await trial.record('database', `fails over to a replica, and ${lossOf(depth)}`)
        fired()
      })
      await trial.record(actor.name, 'dies')
      actor.die()
      return new Promise<never>(() => {})
    },
  }
}

export const failovers: readonly Fault[] = [...DEPTHS.map(failover), ...DEPTHS.map(failoverAndCrash)]
