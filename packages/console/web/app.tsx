import { useEffect, useState } from 'preact/hooks'
import { getSession } from './api/client.js'
import { SessionContext, type SessionAnswer } from './api/session.js'
import { asApiError, type ApiError } from './api/api-error.js'
import { Failure } from './components/states.js'
import { useLiveFlow } from './live/live-flow.js'
import { pageOf } from './pages/page-of.js'
import { usePlace } from './router/router.js'
import { Shell } from './shell.js'

/** When a session that could not be read is asked for again. */
const RETRY_MS = 5_000

/** The whole page. */
export function App() {
  const place = usePlace()
  const live = useLiveFlow()
  const { session, error } = useSessionAnswer()
  return (
    <SessionContext.Provider value={session}>
      <Shell live={live}>
        {error?.code === 'unauthenticated' || error?.code === 'forbidden' ? (
          <Failure error={error} />
        ) : (
          pageOf(place)
        )}
      </Shell>
    </SessionContext.Provider>
  )
}

function useSessionAnswer(): { readonly session: SessionAnswer | null; readonly error: ApiError | null } {
  const [session, setSession] = useState<SessionAnswer | null>(null)
  const [error, setError] = useState<ApiError | null>(null)
  useEffect(() => {
    const controller = new AbortController()
    let timer = 0
    const ask = () => {
      getSession(controller.signal).then(
        (answer) => {
          setSession(answer)
          setError(null)
        },
        (failure: unknown) => {
          if (controller.signal.aborted) return
          setError(asApiError(failure))
          timer = window.setTimeout(ask, RETRY_MS)
        },
      )
    }
    ask()
    return () => {
      controller.abort()
      window.clearTimeout(timer)
    }
  }, [])
  return { session, error }
}
