import { randomUUID } from 'node:crypto'
import { reviseDefinition } from '@pawl/core/internal'
import { isOver } from '../case/is-over.js'
import { visit } from '../cast/visit.js'
import { BYSTANDER } from '../history.js'
import { type Fault, isBoundary, isInPhase } from './fault.js'

/** The process dies, and no client comes back: the completer has to finish. */
export const abandonment: Fault = {
  id: 'disconnect.crash',
  title: 'client gone for good, and crash',
  appliesTo: () => true,
  async strike({ scene, actor, fired }) {
    scene.clientIsGone = true
    await scene.note(actor.name, 'dies, and its client never comes back')
    actor.die()
    fired()
    await new Promise<never>(() => {})
  },
}

/** The client goes away, comes back with a retry while the first one still runs, and never again. */
export const disconnect: Fault = {
  id: 'disconnect',
  title: 'client disconnects',
  appliesTo: () => true,
  async strike({ scene, fired }) {
    scene.clientIsGone = true
    await scene.note('client', 'disconnects, and tries once more')
    await visit(scene, 'reconnected client')
    fired()
  },
}

/**
 * The server crashes before it has written the reservation to its disk, which nobody waits for where a transaction comes
 * next: the request is one that nobody has heard of.
 */
export const serverCrash: Fault = {
  id: 'serverCrash',
  title: 'crash of process and server, which loses the reservation',
  appliesTo: ({ text }, { points: [, first], foreign }) =>
    foreign[0]?.phase !== first &&
    (text === 'reserve/insert_key#1:after' || text === `${first}/commit#1:before`),
  async strike({ scene, actor, fired, cleanUp }) {
    cleanUp(async () => {
      await actor.leave()
      await scene.loseCommits('all')
      await scene.note('database', 'crashes, and has not written the reservation to its disk')
      fired()
    })
    await scene.note(actor.name, 'dies')
    actor.die()
    return new Promise<never>(() => {})
  },
}

/**
 * Another request runs between two phases, on the same pipeline: what that keeps in memory is the other's now. What it
 * wrote is undone, so that nothing but memory can tell.
 */
export const memory: Fault = {
  id: 'memory',
  title: 'another request',
  harmless: true,
  appliesTo: (position, shape) =>
    isBoundary(position) && isInPhase(position, shape) && position.phase !== 'finished',
  async strike({ scene, actor, fired }) {
    const { database } = scene.theatre
    const mark = await database.mark()
    await visit(scene, BYSTANDER, { key: randomUUID(), source: actor.source })
    await database.loseCommitsSince(mark)
    fired()
  },
}

/** A process of the next release, which does not know this version, gets a retry. */
export const otherVersion: Fault = {
  id: 'otherVersion',
  title: 'retry at a process of another version',
  appliesTo: (position, shape) =>
    isBoundary(position) && isInPhase(position, shape) && position.phase !== 'finished',
  async strike({ scene, fired }) {
    // A phase that responds ends the request early; what is stored is every version's to replay.
    const row = await scene.theatre.database.keyRow(scene.scope, scene.key)
    const wanted = isOver(row) ? 'replayed' : 'refused'
    const outcome = await visit(scene, 'other version', {
      pipeline: (pipeline) =>
        reviseDefinition(pipeline, (definition) => ({
          ...definition,
          version: definition.version + 1,
          hash: definition.hash.split('').toReversed().join(''),
        })),
    })
    if (outcome === 'died' || outcome.type !== wanted) {
      scene.violations.push({
        rule: 'I10',
        title: 'a row in flight resumes under its own version or is refused loudly',
        detail: `A process with another version was told ${outcome === 'died' ? 'nothing' : outcome.type} instead of ${wanted}.`,
      })
    }
    fired()
  },
}
