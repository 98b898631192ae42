import { useEffect, useState } from 'preact/hooks'

/** `auto`: as the system is. */
export type Theme = 'auto' | 'light' | 'dark'

const NAME = 'pawl-console-theme'
const listeners = new Set<(theme: Theme) => void>()

/** What the reader chose last in this browser. */
export function readTheme(): Theme {
  try {
    const stored = window.localStorage.getItem(NAME)
    return stored === 'light' || stored === 'dark' ? stored : 'auto'
  } catch {
    // Storage may be forbidden. Then it is as the system is.
    return 'auto'
  }
}

/** Shows a theme and remembers it. */
export function chooseTheme(theme: Theme): void {
  try {
    if (theme === 'auto') window.localStorage.removeItem(NAME)
    else window.localStorage.setItem(NAME, theme)
  } catch {
    // Then it lasts until the page is left.
  }
  showTheme(theme)
}

export function showTheme(theme: Theme): void {
  const { dataset } = document.documentElement
  if (theme === 'auto') delete dataset['theme']
  else dataset['theme'] = theme
  for (const listener of listeners) listener(theme)
}

export function useTheme(): Theme {
  const [theme, setTheme] = useState(readTheme)
  useEffect(() => {
    listeners.add(setTheme)
    return () => void listeners.delete(setTheme)
  }, [])
  return theme
}
