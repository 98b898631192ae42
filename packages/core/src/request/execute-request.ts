import { checkKnownOptions } from '../check-option.js'
import { checkRequest } from './check-request.js'
import { FINGERPRINT_VERSION, fingerprintOf, fingerprintOfChecked } from './fingerprint.js'
import type { JsonValue } from '../pipeline/json-value.js'
import type { PipelineDefinition } from '../pipeline/pipeline.js'
import type { KeyKind } from '../storage/keys/key-row.js'
import type { NewKey } from '../storage/keys/insert-key.js'
import { encodeInput, type ValidatedInput, validateInput } from './validate-input.js'

/** One request: who asks, under which key, for what. */
export interface ExecuteRequest<Input> {
  /** The authenticated principal that owns the key. Never take it from the request's body. */
  readonly scope: string
  /** The client's Idempotency-Key. */
  readonly key: string
  /** What the pipeline works on: checked by its schema, stored with the key, the same for every attempt. */
  readonly input: Input
  /** What makes two requests the same, if that is more than the input (an HTTP method and path, raw bytes). */
  readonly fingerprint?: JsonValue | Uint8Array
}

/** A mistyped `fingerprint` would make every request look alike. */
export function checkExecuteRequest(where: string, request: ExecuteRequest<unknown>): void {
  checkKnownOptions({ code: 'PAWL_INVALID_REQUEST', where }, request, [
    'scope',
    'key',
    'input',
    'fingerprint',
  ])
  checkRequest(where, request.scope, request.key)
}

/** A well-formed request, with everything that reserving its key takes. */
export interface CheckedRequest {
  readonly definition: PipelineDefinition
  readonly kind: KeyKind
  readonly scope: string
  readonly key: string
  readonly fingerprint: Buffer
  /** An input that no longer validates may still be answered with its own stored response. */
  readonly input: ValidatedInput
}

/** Validates the input, and takes the fingerprint of the request. */
export async function checkedRequest(
  definition: PipelineDefinition,
  request: ExecuteRequest<unknown>,
  kind: KeyKind,
  maxInputBytes: number,
): Promise<CheckedRequest> {
  const { scope, key } = request
  // Without a schema there is nothing to wait for.
  const input =
    definition.schema === null
      ? encodeInput(definition, request.input, maxInputBytes)
      : await validateInput(definition, request.input, maxInputBytes)
  const fingerprint = requestFingerprint(definition, request, input)
  return { definition, kind, scope, key, fingerprint, input }
}

/** The row that stores such a request. */
export function newKeyOf(request: CheckedRequest, inputJson: string): NewKey {
  const { definition, kind, scope, key, fingerprint } = request
  const { name: pipeline, version, hash: definitionHash } = definition
  const fingerprintVersion = FINGERPRINT_VERSION
  return { scope, key, pipeline, kind, version, definitionHash, fingerprint, fingerprintVersion, inputJson }
}

/**
 * Computed from the input as it arrived: a default that is added to the schema must not turn retries into mismatches.
 * `fingerprint` may be unable to read an invalid input.
 */
function requestFingerprint(
  { fingerprint, schema }: PipelineDefinition,
  request: ExecuteRequest<unknown>,
  validated: ValidatedInput,
): Buffer {
  const { input } = request
  if (request.fingerprint != null) return fingerprintOf(request.fingerprint)
  // Without a schema, the input itself is what was encoded.
  if (fingerprint === null && schema === null) return fingerprintOfChecked(input as JsonValue)
  if (fingerprint === null) return fingerprintOf(input as JsonValue)
  let counts: JsonValue
  try {
    counts = fingerprint(input as never)
  } catch (error) {
    throw validated.type === 'invalid' ? validated.error : error
  }
  return fingerprintOf(counts)
}
