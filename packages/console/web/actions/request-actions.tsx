import type { AsJson, RequestReport } from '../../src/api.js'

interface RequestActionsProps {
  readonly report: AsJson<RequestReport>
  /** Called when something was done to the key, so that it is read again. */
  readonly onChanged: () => void
}

/** What a person may do to a request. */
export function RequestActions(_props: RequestActionsProps) {
  return null
}
