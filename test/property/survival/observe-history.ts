import type { Change, History, Row } from '../../../packages/crash-kit/src/history.js'
import { chargeOf, inOrder, type Snapshot } from '../pipelines/reference-model.js'

/** How a history ended, in the form of the reference model. */
export interface ObservedEnd {
  readonly status: string
  readonly stuckReason: string | null
  readonly snapshot: Snapshot
  readonly trail: readonly { readonly point: string; readonly skipped: boolean }[]
  readonly response: { readonly status: number; readonly headers: unknown; readonly body: string } | null
  /** The phase of every effect at the provider. */
  readonly charges: readonly string[]
}

/** Replays everything that was committed. */
export function observeHistory({ commits, requests }: History): ObservedEnd {
  const changes = commits.flatMap((commit) => commit.changes)
  const of = (table: string): Change[] => changes.filter((change) => change.table === table)
  const row = of('idempotency_keys').at(-1)?.after ?? {}
  const charges = requests.filter(({ executed }) => executed).map(({ body }) => chargeIn(body))
  const effects = of('effects').flatMap(({ op, after }) => (op === 'INSERT' && after !== null ? [after] : []))
  const references = new Map(effects.map((effect) => [text(effect, 'reference'), text(effect, 'phase')]))
  const named = (json: string) =>
    [...references].reduce((whole, [id, phase]) => whole.replaceAll(id, chargeOf(phase)), json)
  const trail = (row['trail'] ?? []) as { p: string; s?: true }[]
  return {
    status: text(row, 'status'),
    stuckReason: row['stuck_reason'] === null ? null : text(row, 'stuck_reason'),
    snapshot: {
      point: text(row, 'recovery_point'),
      skipped: trail.at(-1)?.s === true,
      stateJson: JSON.stringify(row['state']),
      facts: inOrder(
        inserted(of('facts')).map((fact) => ({
          phase: text(fact, 'phase'),
          n: Number(fact['n']),
          json: named(JSON.stringify(fact['value'])),
        })),
      ),
      totals: Object.fromEntries(
        of('totals').map(({ after }) => [text(after ?? {}, 'name'), Number(after?.['amount'])]),
      ),
      jobs: inserted(of('staged_jobs')).map((job) => ({
        name: text(job, 'name'),
        json: JSON.stringify(job['payload']),
      })),
      effects: effects.map((effect) => text(effect, 'phase')),
    },
    trail: trail.map(({ p, s }) => ({ point: p, skipped: s === true })),
    response: responseIn(row),
    charges,
  }
}

function inserted(changes: readonly Change[]): Row[] {
  return changes.flatMap(({ op, after }) => (op === 'INSERT' && after !== null ? [after] : []))
}

function responseIn(row: Row): ObservedEnd['response'] {
  if (row['response_status'] == null) return null
  const body = Buffer.from(text(row, 'response_body').slice('\\x'.length), 'hex').toString()
  return { status: Number(row['response_status']), headers: row['response_headers'], body }
}

function chargeIn(body: string): string {
  return (JSON.parse(body) as { phase: string }).phase
}

function text(row: Row, column: string): string {
  const value = row[column]
  return typeof value === 'string' ? value : ''
}
