import type { Rules } from './rules.js'
import type { Hold, Row, State, Statement } from './state.js'

/** The row after a statement, or null if it found no row that it may change. This is one atomic step. */
export function execute(rules: Rules, { row, lives }: State, statement: Statement): Row | null {
  if (statement.do === 'insert') {
    return row === null ? newRow(lives + 1, statement.holder, 'live') : null
  }
  if (row === null) return null
  switch (statement.do) {
    case 'take_over': {
      const { read, holder } = statement
      // Point and intent are written as they were read, because an upgrade would map them.
      return rules.mayTakeOver(row, read)
        ? { ...row, ...granted(row, holder), lease: 'live', point: read.point, intent: read.intent }
        : null
    }
    case 'mark_unheld_stuck': {
      const { read, holder } = statement
      return rules.mayTakeOver(row, read)
        ? { ...row, ...granted(row, holder), lease: 'none', status: 'stuck' }
        : null
    }
    case 'declare':
      return rules.mayDeclare(row, statement.hold) ? { ...row, lease: 'live', intent: 'calling' } : null
    case 'renew':
      return rules.mayRenew(row, statement.hold) ? { ...row, lease: 'live' } : null
    case 'raise':
      return rules.mayRaise(row, statement.hold)
        ? { ...row, ...granted(row, statement.holder), lease: row.status === 'running' ? 'live' : 'none' }
        : null
    case 'give_back': {
      const epoch = row.epoch + (statement.raiseEpoch ? 1 : 0)
      return rules.mayGiveBack(row, statement.hold)
        ? { ...row, lease: 'none', intent: statement.intent, epoch }
        : null
    }
    case 'mark_stuck':
      return rules.mayMarkStuck(row, statement.hold)
        ? { ...row, lease: 'none', status: 'stuck', intent: statement.intent }
        : null
  }
}

/** Whether it waits for whoever has locked the row. The others skip a locked row. */
export function waitsForLock({ do: what }: Statement): boolean {
  return what === 'declare' || what === 'raise' || what === 'give_back' || what === 'mark_stuck'
}

/** The grant that a statement is conditional on, or null if it asks for one. */
export function carriedHold(statement: Statement): Hold | null {
  return 'hold' in statement ? statement.hold : null
}

export function newRow(id: number, holder: string, lease: 'live' | 'none'): Row {
  return {
    id,
    fence: 1,
    holder,
    lease,
    point: 0,
    status: 'running',
    intent: 'none',
    epoch: 0,
    response: null,
  }
}

function granted(row: Row, holder: string): Hold {
  return { id: row.id, fence: row.fence + 1, holder }
}
