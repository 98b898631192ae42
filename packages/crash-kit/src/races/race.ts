import fc from 'fast-check'
import type { Environment } from '../actors/environment.js'
import type { Discovery } from '../explore/discover.js'
import { judgeCase } from '../explore/judge-case.js'
import { Finding } from '../finding/finding.js'
import { formatReplay } from '../plan/replay-line.js'
import type { Violation } from '../history.js'
import type { Role } from './stepped-actor.js'
import type { RaceOptions } from './race-options.js'
import { runRace } from './run-race.js'
import { type Schedule, schedules } from './schedule.js'

class Broken extends Error {
  readonly violations: readonly Violation[]

  constructor(violations: readonly Violation[]) {
    super(violations.map(({ rule, detail }) => `${rule}: ${detail}`).join('\n'))
    this.violations = violations
  }
}

/** Runs schedules. Throws a `Finding` for the smallest one that breaks something. */
export async function race(
  environment: Environment,
  { clean }: Discovery,
  options: Required<RaceOptions>,
  onRun: () => void,
): Promise<void> {
  const { actors, runs, seed, path } = options
  const judged = async (schedule: Schedule, verbose: boolean) => {
    const result = await runRace(environment, actors, schedule, verbose)
    // A key whose holders are killed or meet exceptions again and again ends stuck.
    return {
      result,
      violations: judgeCase(result, environment.shape, clean, schedule.turns.filter(isFault).length),
    }
  }
  const property = fc.asyncProperty(schedules(actors.length), async (schedule) => {
    onRun()
    const { violations } = await judged(schedule, false)
    if (violations.length > 0) throw new Broken(violations)
  })
  const details = await fc.check(property, {
    numRuns: runs,
    seed,
    ...(path === '' ? {} : { path, endOnFailure: true }),
  })
  if (!details.failed) return
  const [schedule] = details.counterexample ?? []
  const broken = details.errorInstance
  if (schedule === undefined || !(broken instanceof Broken)) throw broken
  const again = await judged(schedule, true)
  throw new Finding({
    violations: again.violations.length > 0 ? again.violations : broken.violations,
    timeline: again.result.timeline,
    replay: formatReplay({
      kind: 'races',
      actors: [...actors],
      seed: details.seed,
      path: details.counterexamplePath ?? '',
    }),
    title: titleOf(actors, schedule),
  })
}

function isFault({ turn }: Schedule['turns'][number]): boolean {
  return turn === 'kill' || turn === 'throw'
}

function titleOf(actors: readonly Role[], { turns }: Schedule): string {
  const faults = turns.filter(isFault).length
  const moves = turns.filter(({ turn }) => turn === 'move').length
  return `race of ${actors.join(', ')}: ${moves} switches, ${faults} faults`
}
