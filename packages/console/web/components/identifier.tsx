import { CopyButton } from './copy-button.js'
import { ForeignText } from './foreign-text.js'

interface IdentifierProps {
  readonly text: string
  /** What is copied, such as `key`. */
  readonly what: string
  readonly isShort?: boolean
}

/** An id, a key or a reference: figures of one width, a zero that is no O, and a way to copy it. */
export function Identifier({ text, what, isShort = false }: IdentifierProps) {
  return (
    <span class="identifier">
      <ForeignText text={text} isShort={isShort} class="id" />
      <CopyButton text={text} what={what} />
    </span>
  )
}
