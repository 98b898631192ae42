import type { WireFault } from '../cast/wire.js'
import { isCommitting } from './committing.js'
import { type Fault, isStatement } from './fault.js'

/** The backend is ended by the server, as an operator or a restart would. */
export const connectionKilled: Fault = {
  id: 'connectionKilled',
  title: 'connection killed',
  appliesTo: isStatement,
  async strike({ scene, actor, fired }) {
    await scene.theatre.database.terminate(actor.name)
    fired()
    await scene.note('database', `ends the connections of ${actor.name}`)
  },
}

function lost(id: string, title: string, fault: WireFault): Fault {
  return {
    id,
    title,
    appliesTo: (position) => position.when === 'before' && isCommitting(position),
    strike({ scene, actor, position, fired }) {
      actor.wire.arm(fault, () => {
        fired()
        scene.jot('database', `${title} (${position.text})`)
      })
    },
  }
}

/** It was executed, and the answer did not arrive: whether it was is not known to who sent it. */
export const lostCommitAck = lost('lostCommitAck', "COMMIT's answer lost", 'answerLost')

/** It did not reach the server. To who sent it, that looks the same. */
export const lostCommit = lost('lostCommit', 'COMMIT lost', 'statementLost')

const READ_ONLY_OPTION = ' -c default_transaction_read_only=on'

/** All connections break, and the next ones reach a server that has become a replica, until it is one no more. */
export const readOnlyFailover: Fault = {
  id: 'readOnlyFailover',
  title: 'failover to a read-only server',
  appliesTo: (position) => isStatement(position) && position.when === 'before',
  async strike({ scene, actor, fired, cleanUp }) {
    const options = actor.pool.options as { options?: string }
    // Another failover may not be over yet.
    const before = (options.options ?? '').replaceAll(READ_ONLY_OPTION, '')
    options.options = before + READ_ONLY_OPTION
    void actor.wire.whenRefused('25006').then(() => {
      options.options = before
      fired()
    })
    cleanUp(async () => {
      options.options = before
      // Connections of the time when it was read-only, if any is left.
      await scene.theatre.database.terminate(actor.name)
    })
    await scene.theatre.database.terminate(actor.name)
    await scene.note('database', 'fails over to a server that is read-only for now')
  },
}
