import { useEffect, useState } from 'preact/hooks'
import type { ActionResult, AsJson } from '../../src/api.js'
import { type ApiError, asApiError } from '../api/api-error.js'
import { post } from '../api/client.js'

/** What an action would do. While that is asked again, the last answer stays. */
export interface Preview {
  readonly result: AsJson<ActionResult> | null
  readonly error: ApiError | null
  /** The answer is that of what was entered last. */
  readonly isCurrent: boolean
}

/** Long enough not to ask at every letter. */
const PAUSE_MS = 250

/** Asks what an action would do, again and again while it is being filled in; null while it is filled in wrong. */
export function usePreview(path: string, body: object | null): Preview {
  const [preview, setPreview] = useState<Preview & { readonly of: string | null }>({
    result: null,
    error: null,
    isCurrent: false,
    of: null,
  })
  const of = body === null ? null : JSON.stringify(body)
  useEffect(() => {
    if (of === null) return
    const controller = new AbortController()
    const { signal } = controller
    const ask = () => {
      post<ActionResult>(path, JSON.parse(of) as object, signal).then(
        (result) => {
          if (!signal.aborted) setPreview({ result, error: null, isCurrent: true, of })
        },
        (error: unknown) => {
          if (!signal.aborted) setPreview({ result: null, error: asApiError(error), isCurrent: true, of })
        },
      )
    }
    // The first one at once: somebody has just opened it.
    const timer = window.setTimeout(ask, preview.of === null ? 0 : PAUSE_MS)
    return () => {
      window.clearTimeout(timer)
      controller.abort()
    }
  }, [path, of])
  return { ...preview, isCurrent: preview.isCurrent && preview.of === of && of !== null }
}
