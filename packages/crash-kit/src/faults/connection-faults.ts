import type { WireFault } from '../actors/wire.js'
import { isCommitting } from './is-committing.js'
import { type Fault, isStatement } from './fault.js'

/** The server ends the backend, as an operator or a restart would. */
export const connectionKilled: Fault = {
  id: 'connectionKilled',
  title: 'connection killed',
  appliesTo: isStatement,
  async strike({ trial, actor, fired }) {
    await trial.environment.database.terminate(actor.name)
    fired()
    await trial.record('database', `ends the connections of ${actor.name}`)
  },
}

function lost(id: string, title: string, fault: WireFault): Fault {
  return {
    id,
    title,
    appliesTo: (position) => position.when === 'before' && isCommitting(position),
    strike({ trial, actor, position, fired }) {
      actor.wire.arm(fault, () => {
        fired()
        trial.recordNow('database', `${title} (${position.text})`)
      })
    },
  }
}

/** The statement was executed, but its answer did not arrive, so the sender does not know whether it was. */
export const lostCommitAck = lost('lostCommitAck', "COMMIT's answer lost", 'answerLost')

/** The statement did not reach the server. To the sender, that looks the same. */
export const lostCommit = lost('lostCommit', 'COMMIT lost', 'statementLost')

const READ_ONLY_OPTION = ' -c default_transaction_read_only=on'

/** All connections break, and the next ones reach a server that is a read-only replica for a while. */
export const readOnlyFailover: Fault = {
  id: 'readOnlyFailover',
  title: 'failover to a read-only server',
  appliesTo: (position) => isStatement(position) && position.when === 'before',
  async strike({ trial, actor, fired, cleanUp }) {
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
      // Ends connections from when it was read-only, if any are left.
      await trial.environment.database.terminate(actor.name)
    })
    await trial.environment.database.terminate(actor.name)
    await trial.record('database', 'fails over to a server that is read-only for now')
  },
}
