import { useEffect, useState } from 'preact/hooks'
import { BASE } from '../api/base.js'
import type { QueryValues } from '../api/client.js'

/** Where the reader is, without the path under which the console is mounted. */
export interface Place {
  /** Without a slash at either end: `''` is the map, `requests/0198…` a request. */
  readonly path: string
  readonly query: Readonly<Record<string, string>>
}

const listeners = new Set<(place: Place) => void>()

function currentPlace(): Place {
  const { pathname, search } = window.location
  const path = pathname.startsWith(BASE.pathname) ? pathname.slice(BASE.pathname.length) : ''
  return {
    path: path.replace(/\/+$/, '').split('/').map(decode).join('/'),
    query: Object.fromEntries(new URLSearchParams(search)),
  }
}

/** The address of a page of the console. */
export function hrefOf(path: string, query: QueryValues = {}): string {
  const url = new URL(path, BASE)
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== '') url.searchParams.set(name, String(value))
  }
  return url.pathname + url.search
}

/** Goes to a page. `replace`: the way back does not lead through the one that is left, such as for a filter that is being typed. */
export function navigate(href: string, { replace = false }: { readonly replace?: boolean } = {}): void {
  if (href === window.location.pathname + window.location.search) return
  cameBack = false
  const pathBefore = window.location.pathname
  if (replace) window.history.replaceState(window.history.state, '', href)
  else {
    // For the way back.
    window.history.replaceState({ scrollY: window.scrollY }, '')
    window.history.pushState(null, '', href)
  }
  tell()
  if (window.location.pathname !== pathBefore) window.scrollTo(0, 0)
}

let cameBack = false

/** Whether the page is shown again, and not anew. */
export function hasComeBack(): boolean {
  return cameBack
}

/** Where the reader is, as it changes. */
export function usePlace(): Place {
  const [place, setPlace] = useState(currentPlace)
  useEffect(() => {
    listeners.add(setPlace)
    if (listeners.size === 1) window.addEventListener('popstate', goBack)
    return () => {
      listeners.delete(setPlace)
      if (listeners.size === 0) window.removeEventListener('popstate', goBack)
    }
  }, [])
  return place
}

/** Browsers scroll back before the page is drawn again, and so not far enough. */
function goBack({ state }: PopStateEvent): void {
  cameBack = true
  tell()
  const { scrollY } = (state ?? {}) as { readonly scrollY?: number }
  if (scrollY !== undefined) requestAnimationFrame(() => window.scrollTo(0, scrollY))
}

function tell(): void {
  const place = currentPlace()
  for (const listener of listeners) listener(place)
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
