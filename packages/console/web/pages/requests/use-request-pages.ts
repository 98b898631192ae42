import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import type { AsJson, KeyRowSummary, RequestList } from '../../../src/api.js'
import { type ApiError, asApiError } from '../../api/api-error.js'
import { get } from '../../api/client.js'
import { hasComeBack } from '../../router/router.js'
import { useRetryWhenLive } from '../../live/use-retry-when-live.js'
import type { Filters } from './filters.js'

export type RequestRow = AsJson<KeyRowSummary>

/** As many as fill a large screen a few times. */
const PAGE_ROWS = 200
/** More are not had at once: see the server's limits. */
const MAX_PAGE_ROWS = 500
/** Nobody reads on from here: a filter helps more, and the page stays small. */
const MAX_ROWS = 20_000

export interface RequestPages {
  /** Null until the first page is there. */
  readonly rows: readonly RequestRow[] | null
  readonly error: ApiError | null
  readonly isLoading: boolean
  readonly hasMore: boolean
  /** There are more than are shown here. */
  readonly isFull: boolean
  readonly more: () => void
  readonly reload: () => void
}

interface State {
  readonly of: string
  readonly rows: readonly RequestRow[] | null
  readonly next: string | null
  readonly error: ApiError | null
  readonly isLoading: boolean
}

/** What was shown last: whoever comes back from a request goes on where they were. */
let last: State | null = null

/** The requests that a filter lets through, a page at a time. */
export function useRequestPages(filters: Filters): RequestPages {
  const of = JSON.stringify(filters)
  const [turn, setTurn] = useState(0)
  const [state, setState] = useState<State>(() =>
    last?.of === of && hasComeBack() ? last : { of, rows: null, next: null, error: null, isLoading: true },
  )
  const asking = useRef<AbortController | null>(null)

  const ask = useCallback(
    (after: string | null, limit: number) => {
      asking.current?.abort()
      const controller = new AbortController()
      asking.current = controller
      const { signal } = controller
      setState((before) => ({ ...before, isLoading: true, error: null }))
      get<RequestList>('requests', { ...filters, limit, after }, signal).then(
        (page) => {
          if (!signal.aborted) setState((before) => withPage(before, of, after, page))
        },
        (error: unknown) => {
          if (signal.aborted) return
          setState((before) => ({ ...before, of, error: asApiError(error), isLoading: false }))
        },
      )
    },
    // The filters are what their text is.
    [of],
  )

  const shown = useRef(0)
  shown.current = state.of === of ? (state.rows?.length ?? 0) : 0
  useEffect(() => {
    ask(null, Math.min(MAX_PAGE_ROWS, Math.max(PAGE_ROWS, shown.current)))
    return () => asking.current?.abort()
  }, [of, turn, ask])
  useEffect(() => {
    if (state.rows !== null) last = state
  }, [state])
  const reload = useCallback(() => setTurn((before) => before + 1), [])
  useRetryWhenLive(state.error, reload)

  const isCurrent = state.of === of
  const { next, isLoading, error } = state
  const rows = isCurrent ? state.rows : null
  const isFull = (rows?.length ?? 0) >= MAX_ROWS
  return {
    rows,
    error: isCurrent ? error : null,
    isLoading,
    hasMore: isCurrent && next !== null && !isFull,
    isFull: isFull && next !== null,
    more: () => {
      if (!isLoading && isCurrent && next !== null) ask(next, PAGE_ROWS)
    },
    reload,
  }
}

function withPage(
  before: State,
  of: string,
  after: string | null,
  { rows, next }: AsJson<RequestList>,
): State {
  const done = { of, error: null, isLoading: false }
  const known = before.of === of ? (before.rows ?? []) : []
  if (after !== null) return { ...done, rows: joined(known, rows), next }
  // Read again from its beginning, a list does not become shorter than it was, or the reader would lose their place.
  const rest = next === null ? [] : known.slice(rows.length)
  return { ...done, rows: joined(rows, rest), next: rest.length === 0 ? next : before.next }
}

/** A key that was written between two pages may come in both. */
function joined(before: readonly RequestRow[], after: readonly RequestRow[]): readonly RequestRow[] {
  const known = new Set(before.map(({ keyId }) => keyId))
  return [...before, ...after.filter(({ keyId }) => !known.has(keyId))]
}
