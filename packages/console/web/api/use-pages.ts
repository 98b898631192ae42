import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { useRetryWhenLive } from '../live/use-retry-when-live.js'
import { type ApiError, asApiError } from './api-error.js'

/** A list that comes page by page, as far as it was asked for. */
export interface Pages<Row> {
  /** Null until the first page is there. */
  readonly rows: readonly Row[] | null
  readonly error: ApiError | null
  readonly isLoading: boolean
  readonly hasMore: boolean
  /** Asks for the page after the last one. */
  readonly more: () => void
  /** Begins again with the first page. */
  readonly reload: () => void
}

interface PageAnswer<Row> {
  readonly rows: readonly Row[]
  readonly next: string | null
}

interface State<Row> {
  readonly of: string
  readonly rows: readonly Row[] | null
  readonly next: string | null
  readonly error: ApiError | null
  readonly isLoading: boolean
}

/** Asks for the first page when the list appears and whenever `of` changes, and for the others when it is told to. */
export function usePages<Row>(
  of: string,
  ask: (after: string | null, signal: AbortSignal) => Promise<PageAnswer<Row>>,
): Pages<Row> {
  const empty = { of, rows: null, next: null, error: null, isLoading: true }
  const [state, setState] = useState<State<Row>>(empty)
  const latest = useRef(ask)
  latest.current = ask
  const asking = useRef<AbortController | null>(null)

  const load = useCallback(
    (after: string | null) => {
      asking.current?.abort()
      const controller = new AbortController()
      asking.current = controller
      setState((before) => (before.of === of ? { ...before, isLoading: true } : { ...empty, of }))
      latest.current(after, controller.signal).then(
        ({ rows, next }) => {
          if (controller.signal.aborted) return
          setState((before) => ({
            of,
            rows: after === null || before.rows === null ? rows : [...before.rows, ...rows],
            next,
            error: null,
            isLoading: false,
          }))
        },
        (error: unknown) => {
          if (controller.signal.aborted) return
          setState((before) => ({ ...before, error: asApiError(error), isLoading: false }))
        },
      )
    },
    [of],
  )
  useEffect(() => {
    load(null)
    return () => asking.current?.abort()
  }, [load])

  const reload = useCallback(() => load(null), [load])
  useRetryWhenLive(state.error, reload)

  // In the render in which `of` changes, the effect has not run yet.
  const { rows, next, error, isLoading } = state.of === of ? state : empty
  return {
    rows,
    error,
    isLoading,
    hasMore: next !== null,
    more: () => {
      if (next !== null && !isLoading) load(next)
    },
    reload,
  }
}
