import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { useRetryWhenLive } from '../live/use-retry-when-live.js'
import { type ApiError, asApiError } from './api-error.js'

/**
 * What a page asked for. While it is asked for again, and when that fails, the last answer stays. A failure that passes by itself is
 * followed by another try.
 */
export interface Asked<Answer> {
  readonly answer: Answer | null
  readonly error: ApiError | null
  readonly isLoading: boolean
  /** Asks again. */
  readonly reload: () => void
  /** Takes an answer that came in another way, such as from a change. */
  readonly replace: (answer: Answer) => void
}

interface State<Answer> {
  readonly of: string
  readonly answer: Answer | null
  readonly error: ApiError | null
  readonly isLoading: boolean
}

/**
 * Asks for something when the page appears and whenever `key` changes; null asks for nothing. What is asked for under an older key is
 * given up, and its answer never appears under the newer.
 */
export function useAnswer<Answer>(
  key: string | null,
  ask: (signal: AbortSignal) => Promise<Answer>,
): Asked<Answer> {
  const of = key ?? ''
  const [state, setState] = useState<State<Answer>>({
    of,
    answer: null,
    error: null,
    isLoading: key !== null,
  })
  const [turn, setTurn] = useState(0)
  const latest = useRef(ask)
  latest.current = ask

  useEffect(() => {
    if (key === null) return
    const controller = new AbortController()
    const { signal } = controller
    setState((before) => ({
      of,
      answer: before.of === of ? before.answer : null,
      error: before.of === of ? before.error : null,
      isLoading: true,
    }))
    latest.current(signal).then(
      (answer) => {
        if (!signal.aborted) setState({ of, answer, error: null, isLoading: false })
      },
      (error: unknown) => {
        if (signal.aborted) return
        const failure = asApiError(error)
        setState((before) => ({ ...before, of, error: failure, isLoading: false }))
      },
    )
    return () => controller.abort()
  }, [key, of, turn])

  const reload = useCallback(() => setTurn((before) => before + 1), [])
  const replace = useCallback(
    (answer: Answer) => setState({ of, answer, error: null, isLoading: false }),
    [of],
  )
  useRetryWhenLive(state.error, reload)
  // In the render in which the key changes, the effect has not run yet.
  const isCurrent = state.of === of
  return {
    answer: isCurrent ? state.answer : null,
    error: isCurrent ? state.error : null,
    isLoading: isCurrent ? state.isLoading : key !== null,
    reload,
    replace,
  }
}
