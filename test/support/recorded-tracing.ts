import { AsyncLocalStorage } from 'node:async_hooks'
import type { GrantToTrace, Tracing } from '@pawl/core/internal'

/** The path of what goes on now, from the outermost, such as `request execute > phase ride_created`. */
const here = new AsyncLocalStorage<string>()

/** A tracing that writes down what it goes around, each inside of what it belongs to. */
export class RecordedTracing implements Tracing {
  /** What began, in order. */
  readonly began: string[] = []
  /** What ended, and how. */
  readonly ended: string[] = []
  readonly grants: GrantToTrace[] = []
  readonly waits: { readonly ms: number; readonly got: boolean }[] = []
  readonly #traceparents: (string | null)[]

  /** `traceparents`: those of the requests to come, one after the other; then none. */
  constructor(traceparents: readonly (string | null)[] = []) {
    this.#traceparents = [...traceparents]
  }

  /** Where the caller is. */
  static get here(): string {
    return here.getStore() ?? 'outside'
  }

  readonly request: Tracing['request'] = (request, run) =>
    this.#around(`request ${request.by}`, run, ({ type }) => type)
  readonly phase: Tracing['phase'] = ({ phase, kind, step }, run) =>
    this.#around(`${kind} ${phase} (${step})`, run, ({ type, committed = [] }) =>
      [type, ...committed.map(({ point }) => point)].join(' '),
    )
  readonly body: Tracing['body'] = (phase, run) => this.#around(`body ${phase}`, run, () => 'done')
  readonly call: Tracing['call'] = ({ phase, step, effectName, guarantee }, run) =>
    this.#around(`${step} ${phase} (${guarantee} ${effectName})`, run, () => 'done')
  readonly round: Tracing['round'] = (service, run) => this.#around(`round ${service}`, run, () => 'done')

  traceparent(): string | null {
    return this.#traceparents.shift() ?? null
  }

  granted(grant: GrantToTrace): void {
    this.grants.push(grant)
    this.began.push(`${RecordedTracing.here} > granted`)
  }

  waited(ms: number, got: boolean): void {
    this.waits.push({ ms, got })
  }

  #around<T>(name: string, run: () => Promise<T>, endOf: (value: T) => string): Promise<T> {
    const path = here.getStore() === undefined ? name : `${here.getStore()} > ${name}`
    this.began.push(path)
    return here.run(path, async () => {
      try {
        const value = await run()
        this.ended.push(`${name}: ${endOf(value)}`)
        return value
      } catch (error) {
        this.ended.push(`${name}: threw`)
        throw error
      }
    })
  }
}
