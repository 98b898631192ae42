import type { Shown } from '../../src/api.js'
import { formatBytes } from '../format/count.js'
import { visibleText } from '../format/visible-text.js'
import { CopyButton } from './copy-button.js'
import { Icon } from './icon.js'

interface HiddenValueProps {
  readonly value: Shown
  /** Such as `input`, for the button that copies it. */
  readonly what: string
  /** Asks for a reason and reveals it; absent where that cannot be done here. */
  readonly onReveal?: (() => void) | undefined
}

/** What a client or a provider sent: hidden until it is revealed. */
export function HiddenValue({ value, what, onReveal }: HiddenValueProps) {
  if (value.hidden) {
    return (
      <div class="hidden-value">
        <Icon name="eye" />
        <span>Hidden, {formatBytes(value.bytes)}</span>
        {onReveal !== undefined && (
          <button type="button" class="text-button" onClick={onReveal} aria-label={`Reveal ${what}`}>
            Reveal
          </button>
        )}
      </div>
    )
  }
  if ('tooLarge' in value) {
    return (
      <p class="hidden-value">
        {formatBytes(value.bytes)}: too large for a page. “pawl show --reveal” prints it.
      </p>
    )
  }
  if ('base64' in value) {
    return (
      <div class="shown-value">
        <p class="shown-note">
          {formatBytes(value.bytes)} that are no text, as base64
          <CopyButton text={value.base64} what={what} />
        </p>
        <pre tabIndex={0} aria-label={what}>
          {value.base64}
        </pre>
      </div>
    )
  }
  const json = JSON.stringify(value.value, null, 2)
  return (
    <div class="shown-value">
      <CopyButton text={json} what={what} />
      <pre tabIndex={0} aria-label={what} dir="ltr">
        {json.split('\n').map(visibleText).join('\n')}
      </pre>
    </div>
  )
}
