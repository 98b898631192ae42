import type { Environment } from '../actors/environment.js'
import { Trial } from '../actors/trial.js'
import { type Conclusion, concludeTrial } from '../case/conclude-trial.js'
import { Scheduler } from './scheduler.js'
import type { SteppedActor, Role } from './stepped-actor.js'
import type { Schedule, Turn } from './schedule.js'

/** Lets the actors race for one key in the order of the schedule, then recovers the key. */
export async function runRace(
  environment: Environment,
  roles: readonly Role[],
  schedule: Schedule,
  verbose = false,
): Promise<Conclusion> {
  const trial = await Trial.open(environment, verbose)
  const scheduler = new Scheduler(trial, roles)
  await freezeZombie(trial, scheduler, schedule.zombieSteps)
  for (const turn of schedule.turns) await take(trial, scheduler, turn)
  await scheduler.finish()
  await Promise.all(scheduler.actors.map(({ actor }) => actor.close()))
  return concludeTrial(trial)
}

async function freezeZombie(trial: Trial, scheduler: Scheduler, steps: number): Promise<void> {
  const zombie = scheduler.actors.find(({ role }) => role === 'zombie')
  if (zombie === undefined) return
  await moveOn(trial, scheduler, zombie, steps)
  await trial.expireLease()
}

async function take(trial: Trial, scheduler: Scheduler, turn: Turn): Promise<void> {
  switch (turn.turn) {
    case 'move':
      return moveOn(trial, scheduler, actorAt(scheduler, turn.who), turn.steps)
    case 'expire':
      return trial.expireLease()
    case 'throw':
      return actorAt(scheduler, turn.who).throwNext()
    case 'kill': {
      const actor = actorAt(scheduler, turn.who)
      if (actor.state === 'waiting' || actor.state === 'ended') return
      await trial.record(actor.name, 'dies')
      return actor.kill()
    }
    case 'retire':
      return retire(trial, scheduler)
  }
}

function actorAt({ actors }: Scheduler, who: number): SteppedActor {
  return actors[who % actors.length] as SteppedActor
}

async function moveOn(trial: Trial, scheduler: Scheduler, actor: SteppedActor, steps: number): Promise<void> {
  // Without a row it would not be a mismatch: the key would be its own.
  if (actor.role === 'mismatch' && (await trial.environment.database.keyRow(trial.scope, trial.key)) === null)
    return
  for (let step = 0; step < steps; step++) await scheduler.move(actor)
}

async function retire(trial: Trial, scheduler: Scheduler): Promise<void> {
  const row = await trial.environment.database.keyRow(trial.scope, trial.key)
  const clients = scheduler.actors.filter(({ role }) => role !== 'reaper')
  if (row?.['status'] !== 'finished' || clients.some(({ state }) => state !== 'ended')) return
  await trial.retire()
}
