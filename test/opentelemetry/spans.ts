import type { Link, SpanContext } from '@opentelemetry/api'
import {
  type ReadableSpan,
  NodeTracerProvider,
  type Span,
  type SpanProcessor,
} from '@opentelemetry/sdk-trace-node'

/** Keeps spans as they end. */
export class Spans implements SpanProcessor {
  readonly provider: NodeTracerProvider
  readonly ended: ReadableSpan[] = []
  readonly started: Span[] = []
  #waiting: (() => void)[] = []

  constructor() {
    this.provider = new NodeTracerProvider({ spanProcessors: [this] })
  }

  onStart(span: Span): void {
    this.started.push(span)
  }

  onEnd(span: ReadableSpan): void {
    this.ended.push(span)
    for (const look of this.#waiting.splice(0)) look()
  }

  forceFlush(): Promise<void> {
    return Promise.resolve()
  }

  shutdown(): Promise<void> {
    return Promise.resolve()
  }

  /** Resolves with the first span of that name once it has ended. */
  async named(name: string): Promise<ReadableSpan> {
    for (;;) {
      const found = this.ended.find((span) => span.name === name)
      if (found !== undefined) return found
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    }
  }

  /** The names of a span's children, in the order in which they began, each with its own: `[name, children]`. */
  tree(root: ReadableSpan): SpanTree {
    const { spanId } = root.spanContext()
    const children = this.started
      .map((span) => this.ended.find((one) => one.spanContext().spanId === span.spanContext().spanId))
      .filter((span) => span !== undefined)
      .filter((span) => span.parentSpanContext?.spanId === spanId)
    return children.length === 0 ? root.name : { [root.name]: children.map((child) => this.tree(child)) }
  }

  clear(): void {
    this.ended.length = 0
    this.started.length = 0
  }
}

export type SpanTree = string | { readonly [name: string]: readonly SpanTree[] }

/** Where a span's links lead. */
export function linked({ links }: ReadableSpan): Pick<SpanContext, 'traceId' | 'spanId'>[] {
  return links.map(({ context: { traceId, spanId } }: Link) => ({ traceId, spanId }))
}
