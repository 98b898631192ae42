import { visibleParts, visibleText } from '../format/visible-text.js'

interface ForeignTextProps {
  readonly text: string
  /** On one line, which ends with an ellipsis where it does not fit. The title has all of it. */
  readonly isShort?: boolean
  readonly class?: string
}

/**
 * A text that others chose: a key, a scope, an error, a reason. Its direction stays within it, and what cannot be seen in it is written
 * out.
 */
export function ForeignText({ text, isShort = false, class: className = '' }: ForeignTextProps) {
  const parts = visibleParts(text)
  const isPlain = parts.length === 1 && parts[0]?.isEscape === false
  return (
    <bdi
      class={`foreign ${isShort ? 'foreign-short' : ''} ${className}`}
      title={isShort ? visibleText(text) : undefined}
    >
      {isPlain
        ? text
        : parts.map((part) => (part.isEscape ? <span class="escape">{part.text}</span> : part.text))}
    </bdi>
  )
}
