import { useEffect } from 'preact/hooks'
import type { ApiError } from '../api/api-error.js'
import { liveFlow } from './live-flow.js'

/** What passes by itself. */
const PASSING = new Set<ApiError['code']>(['database_away', 'unreachable', 'unreadable', 'busy', 'too_slow'])

/** Asks again for what could not be had, once the page is live again. */
export function useRetryWhenLive(error: ApiError | null, retry: () => void): void {
  const isPassing = error !== null && PASSING.has(error.code)
  useEffect(() => {
    if (!isPassing) return
    // If it is live all along, the trouble is another, and asking at once would not end.
    let wasLive = liveFlow.state.connection === 'live'
    return liveFlow.listen(({ connection }) => {
      const isLive = connection === 'live'
      if (isLive && !wasLive) retry()
      wasLive = isLive
    })
  }, [isPassing, retry])
}
