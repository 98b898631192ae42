const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}/

/** Where a trace is shown; null where there is none, or nobody said where. */
export function traceLink(template: string | null, traceparent: string | null): string | null {
  const [, traceId, spanId] = traceparent?.match(TRACEPARENT) ?? []
  if (template === null || traceId === undefined || spanId === undefined) return null
  const url = template.replaceAll('{traceId}', traceId).replaceAll('{spanId}', spanId)
  return /^https?:\/\//.test(url) ? url : null
}
