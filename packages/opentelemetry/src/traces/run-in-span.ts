import {
  type Context,
  context,
  isSpanContextValid,
  type Span,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'

/** The context of a span in another. Without an SDK, a span is part of no trace, and nothing is gained by a context of its own. */
export function contextWith(parent: Context, span: Span): Context {
  return isSpanContextValid(span.spanContext()) ? trace.setSpan(parent, span) : parent
}

/** Calls a function in a context, unless it is in that already. */
export function callIn<T>(inside: Context, run: () => T): T {
  return inside === context.active() ? run() : context.with(inside, run)
}

/** Marks a span as failed. `error` goes into the trace: it has to be redacted. */
export function failSpan(span: Span, type: string, error: Error | null): void {
  span.setAttribute('error.type', type)
  span.setStatus({ code: SpanStatusCode.ERROR, message: error?.message ?? type })
  if (error !== null) span.recordException(error)
}
