import type { PhaseTransaction } from '../driver/kysely-driver.js'
import type { PhaseContext, Stage, StateObject, TransactionContext } from '../pipeline/phase.js'
import type { KeyRow } from '../storage/key-row.js'

type Seen = PhaseContext<unknown, StateObject>
type SeenInTransaction = TransactionContext<never, unknown, StateObject>

/** What `when`, `call` and `reconcile` see. */
export function phaseContext<More extends object>(row: KeyRow, more: More): More & Seen {
  const own = new OwnCopy(row)
  return {
    ...more,
    get input() {
      return own.input
    },
    get state() {
      return own.state
    },
    scope: row.scope,
    keyId: row.id,
  }
}

/** What functions see that run in the phase's transaction. */
export function transactionContext<More extends object>(
  row: KeyRow,
  transaction: PhaseTransaction,
  stage: Stage,
  more: More,
): More & SeenInTransaction {
  const own = new OwnCopy(row)
  return {
    ...more,
    get input() {
      return own.input
    },
    get state() {
      return own.state
    },
    get tx() {
      return transaction.tx
    },
    scope: row.scope,
    keyId: row.id,
    stage,
  }
}

/** Parsed for each function anew, so that one which changes them changes its own copy; and only if it looks at them. */
class OwnCopy {
  readonly #row: KeyRow
  #input: unknown
  #state: StateObject | undefined

  constructor(row: KeyRow) {
    this.#row = row
  }

  get input(): unknown {
    return (this.#input ??= JSON.parse(this.#row.inputJson) as unknown)
  }

  get state(): StateObject {
    return (this.#state ??= JSON.parse(this.#row.stateJson) as StateObject)
  }
}
