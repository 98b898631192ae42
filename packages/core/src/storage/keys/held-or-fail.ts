import { isOfStatementItself, sqlStateOf } from '../../driver/postgres-error.js'

const FENCED_OFF = 'pawl: fenced off'

const INVALID_TEXT_REPRESENTATION = '22P02'

/**
 * Fails where the update found no row, so that a COMMIT that was sent along with it commits nothing. Plain SQL has no
 * RAISE, so we cast a text that is not a number. It is built from the count, or the planner would evaluate it beforehand.
 *
 * A function in the schema could raise a SQLSTATE of our own, at no cost in time. But PostgreSQL looks up the function,
 * and the right to execute it, for every statement that names it, even where the row is found. Where the function is
 * missing, every advance would fail (42883); so it would for every role where EXECUTE is not granted to PUBLIC by default
 * (42501), as in hardened databases. And servers that distribute tables, or that have no PL/pgSQL, would need it in each
 * place. A cast exists everywhere, and everybody may use it.
 */
const ONE_ROW_OR_FAIL = `CASE WHEN count(*) = 1 THEN 1 ELSE ('${FENCED_OFF}, rows: ' || count(*))::integer END AS rows`

/** A setting of a phase's transaction, made when it begins. No other transaction has it. */
export const IN_PHASE = 'pawl.in_phase'

const IN_ANOTHER = 'pawl: in another transaction'

/** Fails likewise where the transaction is not the one that was begun for the phase: somebody has ended that one. */
const IN_PHASE_OR_FAIL = `CASE WHEN current_setting('${IN_PHASE}', true) = 'yes' THEN 1
              ELSE ('${IN_ANOTHER}, rows: ' || count(*))::integer END AS in_phase`

/**
 * The advance, which fails unless it finds its row in the transaction of its phase. `more`: further columns. `also`: what else the
 * statement does.
 */
export const heldOrFail = (update: string, more = '', also = ''): string => `
  WITH advanced AS (${update})${also}
  SELECT max(now_ms) AS now_ms, max(expires_ms) AS expires_ms, ${more === '' ? '' : `${more}, `}${ONE_ROW_OR_FAIL},
         ${IN_PHASE_OR_FAIL} FROM advanced`

/** Whether an advance found no row that is as its holder had left it. */
export function advanceFoundNoRow(error: unknown): boolean {
  return saysThat(FENCED_OFF, error)
}

/** Whether an advance found itself in a transaction other than its phase's. */
export function isInAnotherTransaction(error: unknown): boolean {
  return saysThat(IN_ANOTHER, error)
}

function saysThat(what: string, error: unknown): boolean {
  const { message } = error as { readonly message: string }
  return (
    sqlStateOf(error) === INVALID_TEXT_REPRESENTATION &&
    // Without the quotation mark before it: servers translate those.
    message.includes(`${what}, rows: `) &&
    isOfStatementItself(error)
  )
}
