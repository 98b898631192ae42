import type { ComponentChildren } from 'preact'
import type { QueryValues } from '../api/client.js'
import { hrefOf, navigate } from './router.js'

interface LinkProps {
  /** Without the path under which the console is mounted, such as `requests`. */
  readonly to: string
  readonly query?: QueryValues | undefined
  readonly onFollow?: (() => void) | undefined
  readonly class?: string
  readonly title?: string
  readonly 'aria-label'?: string
  readonly 'aria-current'?: 'page' | undefined
  readonly children: ComponentChildren
}

/** A link to another page of the console: an ordinary one, so that it opens in a new tab as well. */
export function Link({ to, query, onFollow, children, ...rest }: LinkProps) {
  const href = hrefOf(to, query)
  const onClick = (event: MouseEvent) => {
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey
    if (!isPlain || event.defaultPrevented) return
    event.preventDefault()
    onFollow?.()
    navigate(href)
  }
  return (
    <a {...rest} href={href} onClick={onClick}>
      {children}
    </a>
  )
}
