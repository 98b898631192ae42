import { type Context, isSpanContextValid, ROOT_CONTEXT, type SpanContext, trace } from '@opentelemetry/api'

/** Version 00 of the W3C recommendation; a later one may append something, which is of no use here. */
const TRACEPARENT = /^[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(?:-|$)/

/** Writes a span's place in its trace as a W3C `traceparent`; null where the span is not part of any trace. */
export function traceparentOf(span: SpanContext): string | null {
  if (!isSpanContextValid(span)) return null
  return `00-${span.traceId}-${span.spanId}-${(span.traceFlags & 0xff).toString(16).padStart(2, '0')}`
}

/** Reads a W3C `traceparent`; null where it is none. */
export function readTraceparent(traceparent: string | null): SpanContext | null {
  const [, traceId = '', spanId = '', flags = ''] = TRACEPARENT.exec(traceparent ?? '') ?? []
  const span: SpanContext = {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16),
    isRemote: true,
  }
  return isSpanContextValid(span) ? span : null
}

/**
 * The context in which a queue goes on with a trace: what is started in it is a part of the request that staged the job. Where
 * that was not traced, what is started begins a trace of its own.
 *
 * @example
 * const sink = deliverEach((job) => context.with(contextOf(job.traceparent), () => queue.add(job.name, job.payload)))
 */
export function contextOf(traceparent: string | null): Context {
  const span = readTraceparent(traceparent)
  return span === null ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, span)
}
