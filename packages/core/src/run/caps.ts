/**
 * Size caps in bytes. The row is rewritten at every phase, so it has to stay small.
 *
 * @example
 * createEngine({ pool, pipelines, caps: { responseBytes: 8 * 1024 * 1024 } })
 */
export interface Caps {
  /** The input as JSON. Default 256 KiB. */
  readonly inputBytes: number
  /** The state as JSON, and each staged job's payload. Default 64 KiB. */
  readonly stateBytes: number
  /** The response's body. Default 2 MiB. */
  readonly responseBytes: number
  /** The response's headers, names and values together. Default 8 KiB: what proxies take. */
  readonly headerBytes: number
  /**
   * What a call returned, as JSON. Default 1 MiB. It is stored only if its `settle` fails. A result over the cap fails the
   * phase in strict mode, and is warned about otherwise; either way the call is not made again.
   */
  readonly resultBytes: number
}
