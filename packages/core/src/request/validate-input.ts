import type { StandardSchemaV1 } from '@standard-schema/spec'
import { InvalidInputError, type InputIssue, PawlError } from '../errors.js'
import { MAX_INPUT_ISSUES, MAX_ISSUE_PATH_LENGTH } from '../limits.js'
import { isLargerThan } from '../pipeline/is-larger-than.js'
import { encodeJson, type JsonOrigin, tooLarge } from '../pipeline/json-value.js'
import type { PipelineDefinition } from '../pipeline/pipeline.js'

/** The validated input as it will be stored, or what is wrong with it. */
export type ValidatedInput =
  | { readonly type: 'valid'; readonly json: string }
  | { readonly type: 'invalid'; readonly error: InvalidInputError }

/**
 * Runs the schema and encodes what it returns, which is what every phase sees, now and after a crash. An input that is too
 * large is refused first: a schema may find something wrong with each of a million items.
 */
export async function validateInput(
  definition: PipelineDefinition,
  input: unknown,
  maxBytes: number,
): Promise<ValidatedInput> {
  if (isLargerThan(input, maxBytes)) throw tooLarge(originOf(definition, maxBytes))
  const checked = await check(definition, input)
  if (checked.type === 'invalid') return checked
  const encoded = encodeInput(definition, checked.value, maxBytes)
  // A resumed request is checked again, as it was stored. A schema that refuses its own output would refuse it then, after
  // the charge; better to find out now.
  const again = await check(definition, JSON.parse(encoded.json))
  if (again.type === 'invalid') {
    throw new PawlError(
      'PAWL_INVALID_INPUT',
      `The schema of pipeline '${definition.name}' does not accept its own output (${again.error.message}). ` +
        'Move transforms that change the type out of the schema and into a phase.',
    )
  }
  return encoded
}

/** Encodes an input that has passed the schema, or does not have to. */
export function encodeInput(
  definition: PipelineDefinition,
  input: unknown,
  maxBytes: number,
): Extract<ValidatedInput, { type: 'valid' }> {
  return { type: 'valid', json: encodeJson(input, originOf(definition, maxBytes)) }
}

function originOf({ name }: PipelineDefinition, maxBytes: number): JsonOrigin {
  return { what: `the input of pipeline '${name}'`, maxBytes }
}

/** Returns null if a stored input still satisfies the schema, and otherwise the error that says so. */
export async function recheckInput(
  definition: PipelineDefinition,
  inputJson: string,
): Promise<PawlError | null> {
  const checked = await check(definition, JSON.parse(inputJson)).catch(
    (error: unknown) => ({ type: 'threw', error }) as const,
  )
  if (checked.type === 'valid') return null
  return new PawlError(
    'PAWL_STORED_INPUT_REJECTED',
    `A stored input no longer satisfies the schema of pipeline '${definition.name}' version ${definition.version}. ` +
      'Raise the version when the schema gets stricter, and keep the old version registered.',
    { cause: checked.error },
  )
}

async function check(
  definition: PipelineDefinition,
  input: unknown,
): Promise<
  { readonly type: 'valid'; readonly value: unknown } | Extract<ValidatedInput, { type: 'invalid' }>
> {
  if (definition.schema === null) return { type: 'valid', value: input }
  const result = await definition.schema['~standard'].validate(input)
  if (result.issues === undefined) return { type: 'valid', value: result.value }
  const kept = result.issues.slice(0, MAX_INPUT_ISSUES).map(readIssue)
  return { type: 'invalid', error: new InvalidInputError(definition.name, kept, result.issues.length) }
}

function readIssue(issue: StandardSchemaV1.Issue): InputIssue {
  // Each part takes at least one character and a dot, so further parts would be cut off anyway.
  const parts = (issue.path ?? []).slice(0, MAX_ISSUE_PATH_LENGTH)
  const path = parts.map((part) => String(typeof part === 'object' ? part.key : part)).join('.')
  // A schema in JavaScript may leave the message out.
  const { message = '' } = issue as Partial<StandardSchemaV1.Issue>
  return { message, path }
}
