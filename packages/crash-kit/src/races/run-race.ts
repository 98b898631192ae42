import { Scene, type Theatre } from '../cast/scene.js'
import { type Conclusion, concludeScene } from '../case/conclude-scene.js'
import { LONG_TIME_MS } from '../limits.js'
import { Director } from './director.js'
import type { Player, Role } from './player.js'
import type { Schedule, Turn } from './schedule.js'

/** Lets the actors race for one key in the order of the schedule, then recovers the key. */
export async function runRace(
  theatre: Theatre,
  roles: readonly Role[],
  schedule: Schedule,
  verbose = false,
): Promise<Conclusion> {
  const scene = await Scene.open(theatre, verbose)
  const director = new Director(scene, roles)
  await freezeZombie(scene, director, schedule.zombieSteps)
  for (const turn of schedule.turns) await take(scene, director, turn)
  await director.finish()
  await Promise.all(director.players.map(({ actor }) => actor.leave()))
  return concludeScene(scene)
}

async function freezeZombie(scene: Scene, director: Director, steps: number): Promise<void> {
  const zombie = director.players.find(({ role }) => role === 'zombie')
  if (zombie === undefined) return
  await moveOn(scene, director, zombie, steps)
  await scene.expireLease()
}

async function take(scene: Scene, director: Director, turn: Turn): Promise<void> {
  switch (turn.turn) {
    case 'move':
      return moveOn(scene, director, playerAt(director, turn.who), turn.steps)
    case 'expire':
      return scene.expireLease()
    case 'throw':
      return playerAt(director, turn.who).throwNext()
    case 'kill': {
      const player = playerAt(director, turn.who)
      if (player.state === 'waiting' || player.state === 'ended') return
      await scene.note(player.name, 'dies')
      return player.kill()
    }
    case 'retire':
      return retire(scene, director)
  }
}

function playerAt({ players }: Director, who: number): Player {
  return players[who % players.length] as Player
}

async function moveOn(scene: Scene, director: Director, player: Player, steps: number): Promise<void> {
  // Without a row it would be no impostor: the key would be its own.
  if (player.role === 'impostor' && (await scene.theatre.database.keyRow(scene.scope, scene.key)) === null)
    return
  for (let step = 0; step < steps; step++) await director.move(player)
}

async function retire(scene: Scene, director: Director): Promise<void> {
  const row = await scene.theatre.database.keyRow(scene.scope, scene.key)
  const clients = director.players.filter(({ role }) => role !== 'reaper')
  if (row?.['status'] !== 'finished' || clients.some(({ state }) => state !== 'ended')) return
  scene.reaped = true
  await scene.passTime(LONG_TIME_MS, 'the retention is over')
}
