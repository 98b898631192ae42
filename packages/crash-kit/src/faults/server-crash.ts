import type { Fault } from './fault.js'

/**
 * The server crashes before it has written the reservation to its disk, which nobody waits for when a transaction comes next. To the
 * server, the request is then a new one.
 */
export const serverCrash: Fault = {
  id: 'serverCrash',
  title: 'crash of process and server, which loses the reservation',
  appliesTo: ({ text }, { points: [, first], foreign }) =>
    foreign[0]?.phase !== first &&
    (text === 'reserve/insert_key#1:after' || text === `${first}/commit#1:before`),
  async strike({ trial, actor, fired, cleanUp }) {
    cleanUp(async () => {
      await actor.close()
      await trial.loseCommits('all')
      await trial.record('database', 'crashes, and has not written the reservation to its disk')
      fired()
    })
    await trial.record(actor.name, 'dies')
    actor.die()
    return new Promise<never>(() => {})
  },
}
