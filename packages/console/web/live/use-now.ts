import { useEffect, useState } from 'preact/hooks'
import { clock } from './clock.js'

const TICK_MS = 1_000

const listeners = new Set<() => void>()
let timer: number | null = null

function tick(): void {
  // Nobody sees it.
  if (document.hidden) return
  for (const listener of listeners) listener()
}

/** The database's clock, about once a second. All that show a moment tick together. */
export function useNow(): number {
  const [now, setNow] = useState(() => clock.now())
  useEffect(() => {
    const listener = () => setNow(clock.now())
    listeners.add(listener)
    timer ??= window.setInterval(tick, TICK_MS)
    return () => {
      listeners.delete(listener)
      if (listeners.size > 0 || timer === null) return
      window.clearInterval(timer)
      timer = null
    }
  }, [])
  return now
}
