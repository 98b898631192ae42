import type { DescribedError } from './describe-error.js'
import { hideSecrets } from './hide-secrets.js'
import { createPaint, wantsColour } from './render/paint.js'
import { safeJson, safeText } from './render/safe-text.js'

/** Where errors are reported, and in which form. */
export interface ErrorOutput {
  readonly stderr: { write(text: string): unknown; readonly isTTY?: boolean }
  readonly env: Readonly<Record<string, string | undefined>>
  readonly databaseUrl: string | undefined
  readonly isJson: boolean
}

/** One line, or an object: never a stack, and never a password. */
export function tellError({ code, message }: DescribedError, output: ErrorOutput): void {
  const { stderr, env, databaseUrl, isJson } = output
  const error = { code, message: hideSecrets(message, databaseUrl) }
  const paint = createPaint(wantsColour(stderr, env))
  stderr.write(isJson ? `${safeJson({ error })}\n` : `${paint('red', 'pawl:')} ${safeText(error.message)}\n`)
}
