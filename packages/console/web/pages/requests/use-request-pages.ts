import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import type { AsJson, KeyRowSummary, RequestList } from '../../../src/api.js'
import { type ApiError, asApiError } from '../../api/api-error.js'
import { get } from '../../api/client.js'
import { useRetryWhenLive } from '../../live/use-retry-when-live.js'
import type { Filters } from './filters.js'

export type RequestRow = AsJson<KeyRowSummary>

/** As many as fill a large screen a few times. */
const PAGE_ROWS = 200
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

/** The requests that a filter lets through, a page at a time. */
export function useRequestPages(filters: Filters, isOn: boolean): RequestPages {
  const of = isOn ? JSON.stringify(filters) : ''
  const [turn, setTurn] = useState(0)
  const [state, setState] = useState<State>({ of, rows: null, next: null, error: null, isLoading: true })
  const asking = useRef<AbortController | null>(null)

  const ask = useCallback(
    (after: string | null) => {
      asking.current?.abort()
      const controller = new AbortController()
      asking.current = controller
      const { signal } = controller
      setState((before) => ({ ...before, isLoading: true, error: null }))
      get<RequestList>('requests', { ...filters, limit: PAGE_ROWS, after }, signal).then(
        ({ rows, next }) => {
          if (signal.aborted) return
          setState((before) => ({
            of,
            rows: after === null ? rows : joined(before.rows ?? [], rows),
            next,
            error: null,
            isLoading: false,
          }))
        },
        (error: unknown) => {
          if (signal.aborted) return
          setState((before) => ({ ...before, of, error: asApiError(error), isLoading: false }))
        },
      )
      return controller
    },
    // The filters are what their text is.
    [of],
  )

  useEffect(() => {
    if (of === '') return
    ask(null)
    return () => asking.current?.abort()
  }, [of, turn, ask])

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
      if (!isLoading && isCurrent && next !== null) ask(next)
    },
    reload,
  }
}

/** A key that was written between two pages may come in both. */
function joined(before: readonly RequestRow[], after: readonly RequestRow[]): readonly RequestRow[] {
  const known = new Set(before.map(({ keyId }) => keyId))
  return [...before, ...after.filter(({ keyId }) => !known.has(keyId))]
}
