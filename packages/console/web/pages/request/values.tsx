import { ForeignText } from '../../components/foreign-text.js'
import { HiddenValue } from '../../components/hidden-value.js'
import type { ReportNow } from './request-page.js'

interface ValuesProps {
  readonly report: ReportNow
  readonly onReveal: (() => void) | undefined
}

/** What its client sent and got, and what its phases handed on. */
export function Values({ report: { key }, onReveal }: ValuesProps) {
  return (
    <div class="values">
      {key.sealed !== null && (
        <p class="muted">
          <ForeignText text={key.sealed} />
        </p>
      )}
      <h2>Input</h2>
      <HiddenValue value={key.input} what="input" onReveal={onReveal} />
      <h2>State</h2>
      <HiddenValue value={key.state} what="state" onReveal={onReveal} />
      {key.call !== null && (
        <>
          <h2>Result of the open call</h2>
          <HiddenValue value={key.call.result} what="result of the call" onReveal={onReveal} />
        </>
      )}
      {key.response !== null && (
        <>
          <h2>Response {key.response.status}</h2>
          {Object.entries(key.response.headers).map(([name, value]) => (
            <div key={name} class="value-header">
              <ForeignText text={name} class="muted" />
              <HiddenValue value={value} what={`header ${name}`} onReveal={onReveal} />
            </div>
          ))}
          <HiddenValue value={key.response.body} what="body" onReveal={onReveal} />
        </>
      )}
    </div>
  )
}
