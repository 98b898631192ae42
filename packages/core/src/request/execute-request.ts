import { checkKnownOptions } from '../check-option.js'
import { PawlError } from '../errors.js'
import { MAX_BINDING_LENGTH } from '../limits.js'
import { checkRequest } from './check-request.js'
import { fingerprintOf, fingerprintOfChecked, OriginFingerprint } from './fingerprint.js'
import type { JsonValue } from '../pipeline/json-value.js'
import type { PipelineDefinition } from '../pipeline/pipeline.js'
import type { KeyKind } from '../storage/keys/key-row.js'
import type { NewKey } from '../storage/keys/insert-key.js'
import { type FingerprintSecrets, RequestFingerprint } from './request-fingerprint.js'
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
  /**
   * Something else that only the same caller has: the id of its session, of its token, or of its client certificate. Under a key
   * that was first sent with another one, or without, the request is a `mismatch`. Only a keyed hash of it is stored: the engine
   * needs `protect` or `hashSecret`.
   */
  readonly bindTo?: string
}

/** A mistyped `fingerprint` would make every request look alike. */
export function checkExecuteRequest(
  where: string,
  request: ExecuteRequest<unknown>,
  secrets: FingerprintSecrets,
): void {
  checkKnownOptions({ code: 'PAWL_INVALID_REQUEST', where }, request, [
    'scope',
    'key',
    'input',
    'fingerprint',
    'bindTo',
  ])
  checkRequest(where, request.scope, request.key)
  if (request.bindTo !== undefined) checkBinding(where, request.bindTo, secrets)
}

/** Without a secret, whoever reads the table could try out what a key is bound to. */
export function checkBinding(where: string, bindTo: unknown, secrets: FingerprintSecrets): void {
  // Never shown, whatever it is.
  if (typeof bindTo !== 'string' || bindTo === '' || bindTo.length > MAX_BINDING_LENGTH) {
    const got =
      typeof bindTo === 'string' ? `a string of ${bindTo.length} characters` : `of type ${typeof bindTo}`
    const takes = `a string of 1 to ${MAX_BINDING_LENGTH} characters`
    throw new PawlError('PAWL_INVALID_REQUEST', `${where}: bindTo is ${got}; it takes ${takes}.`)
  }
  if (secrets.canBind) return
  throw new PawlError(
    'PAWL_INVALID_REQUEST',
    `${where}: bindTo needs a secret to be hashed with. Give createEngine the option protect, or hashSecret.`,
  )
}

/** A well-formed request, with everything that reserving its key takes. */
export interface CheckedRequest {
  readonly definition: PipelineDefinition
  readonly kind: KeyKind
  readonly scope: string
  readonly key: string
  readonly fingerprint: RequestFingerprint
  /** An input that no longer validates may still be answered with its own stored response. */
  readonly input: ValidatedInput
}

/** Validates the input, and takes the fingerprint of the request. */
export async function checkedRequest(
  definition: PipelineDefinition,
  request: ExecuteRequest<unknown>,
  kind: KeyKind,
  { maxInputBytes, secrets }: { readonly maxInputBytes: number; readonly secrets: FingerprintSecrets },
): Promise<CheckedRequest> {
  const { scope, key, bindTo } = request
  // Without a schema there is nothing to wait for.
  const input =
    definition.schema === null
      ? encodeInput(definition, request.input, maxInputBytes)
      : await validateInput(definition, request.input, maxInputBytes)
  const plain = requestFingerprint(definition, request, input)
  const hasOrigin = (request.fingerprint as unknown) instanceof OriginFingerprint
  const fingerprint = new RequestFingerprint(secrets, plain, hasOrigin, { scope, key, bindTo })
  return { definition, kind, scope, key, fingerprint, input }
}

/** The row that stores such a request. */
export function newKeyOf(
  request: CheckedRequest,
  inputJson: string,
): Omit<NewKey, 'undoneBefore' | 'traceparent'> {
  const { definition, kind, scope, key } = request
  const { name: pipeline, version, hash: definitionHash } = definition
  const { fingerprint, version: fingerprintVersion } = request.fingerprint.toStore()
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
