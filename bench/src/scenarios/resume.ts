import { type PawlVariant, schemaOfVariant } from '../contenders/registry.js'
import type { Completion } from '../contenders/pawl.js'
import { alternate } from '../measure/rounds.js'
import { warmUp } from '../measure/warm-up.js'
import { rateLine } from '../report/section.js'
import { freshLoad, newKeys } from './keyed-load.js'
import type { Mode, Scenario } from './scenario.js'

const VARIANT: PawlVariant = 'pawl@resumed'
const SENDING_CLIENTS = 32

/** As Pawl answers a request that its provider refused. */
const RETRY_LATER = 503

const PLANS: Readonly<Record<Mode, { keys: number; rounds: number }>> = {
  quick: { keys: 400, rounds: 1 },
  full: { keys: 2_000, rounds: 3 },
}

const PARTICIPANTS = [
  { label: 'default concurrency (4)', concurrency: null },
  { label: 'concurrency 16', concurrency: 16 },
] as const

/** What a crash leaves behind: keys at their first recovery point that are due and that nobody holds. */
export const resume: Scenario = {
  title: 'resume after a crash',
  async run(stage) {
    const { arena, mode, among, say } = stage
    if (among(['pawl']).length === 0) return []
    say('resume')
    const { keys, rounds } = PLANS[mode]
    const entrant = await arena.enter(VARIANT)
    await warmUp(stage, [entrant], freshLoad(SENDING_CLIENTS, 0, 0))
    const makeDue = `UPDATE "${schemaOfVariant(VARIANT)}".idempotency_keys
                        SET run_after = NULL, lease_until = NULL WHERE status = 'running'`
    const samples = await alternate(PARTICIPANTS, rounds, async ({ concurrency }) => {
      await arena.provider.ask('refuse', true)
      await entrant.each({ keys: newKeys(keys), clients: SENDING_CLIENTS, expectedStatus: RETRY_LATER })
      await arena.provider.ask('refuse', false)
      await arena.database.observer.query(makeDue)
      const { completed, seconds } = (await entrant.control('complete', concurrency)) as Completion
      if (completed !== keys) throw new Error(`The completer finished ${completed} of ${keys} keys.`)
      return completed / seconds
    })
    await entrant.close()
    return [
      {
        name: 'resume',
        title: `Resume after a crash: ${keys} keys at their first recovery point, through the completer`,
        unit: 'keys/s',
        compared: 'requestsPerSecond',
        baseline: null,
        lines: [...samples].map(([{ label }, perSecond]) => rateLine(label, perSecond)),
        notes: [],
      },
    ]
  },
}
