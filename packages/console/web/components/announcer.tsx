import { useEffect, useState } from 'preact/hooks'
import { Icon } from './icon.js'

interface Toast {
  readonly id: number
  readonly kind: 'done' | 'failed'
  readonly text: string
}

/** Long enough to read two lines twice. Errors stay until they are closed. */
const SHOWN_MS = 8_000
const MAX_TOASTS = 3

let nextId = 0
let toasts: readonly Toast[] = []
let spoken = ''
const listeners = new Set<() => void>()

/** Tells screen readers something that others see anyway, such as the title of a new page. */
export function speak(text: string): void {
  spoken = text
  tell()
}

/** Shows a line at the edge of the page, and tells it to screen readers. */
export function toast(kind: Toast['kind'], text: string): void {
  const id = nextId++
  toasts = [...toasts, { id, kind, text }].slice(-MAX_TOASTS)
  if (kind === 'done') window.setTimeout(() => dismiss(id), SHOWN_MS)
  tell()
}

function dismiss(id: number): void {
  toasts = toasts.filter((each) => each.id !== id)
  tell()
}

function tell(): void {
  for (const listener of listeners) listener()
}

/** Where lines appear. It is there from the start: screen readers hear only what changes. */
export function Announcer() {
  const [, setTurn] = useState(0)
  useEffect(() => {
    const listener = () => setTurn((before) => before + 1)
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }, [])
  return (
    <>
      <div class="unseen" role="status" aria-live="polite">
        {spoken}
      </div>
      <div class="toasts" role="status" aria-live="polite" aria-label="Messages">
        {toasts.map(({ id, kind, text }) => (
          <div key={id} class={`toast toast-${kind}`}>
            <Icon name={kind === 'done' ? 'check' : 'warning'} />
            <p>{text}</p>
            <button type="button" class="toast-close" aria-label="Close" onClick={() => dismiss(id)}>
              <Icon name="close" />
            </button>
          </div>
        ))}
      </div>
    </>
  )
}
