import { useState } from 'preact/hooks'
import { speak } from './announcer.js'
import { Icon } from './icon.js'

const SHOWN_MS = 1_600

/** Puts a text into the clipboard, exactly as it is. */
export function CopyButton({ text, what }: { readonly text: string; readonly what: string }) {
  const [isCopied, setCopied] = useState(false)
  // Browsers offer it only over TLS and on this machine.
  if (navigator.clipboard === undefined) return null
  const copy = async () => {
    await navigator.clipboard.writeText(text)
    speak(`${what} copied`)
    setCopied(true)
    window.setTimeout(() => setCopied(false), SHOWN_MS)
  }
  return (
    <button
      type="button"
      class="copy"
      title={`Copy ${what}`}
      aria-label={`Copy ${what}`}
      onClick={() => {
        copy().catch(() => speak('It could not be copied'))
      }}
    >
      <Icon name={isCopied ? 'check' : 'copy'} />
    </button>
  )
}
