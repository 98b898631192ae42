import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'

interface PageProps {
  readonly title: string
  /** What is shown for a heading, where it is more than the title. */
  readonly heading?: ComponentChildren
  /** A sentence on what the page is for. */
  readonly intro?: ComponentChildren
  /** Beside the heading: buttons, links. */
  readonly actions?: ComponentChildren
  /** `full`: the page uses all the room there is. */
  readonly width?: 'reading' | 'wide' | 'full'
  readonly children: ComponentChildren
}

/** A key may have 255 characters; a tab shows less than this. */
const MAX_TITLE_LENGTH = 60

/** The first page takes the focus from nobody. */
let isFirst = true

/** A page with its heading. When it appears, its heading gets the focus, so that a screen reader tells where one is. */
export function Page({ title, heading, intro, actions, width = 'wide', children }: PageProps) {
  const ref = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    if (!isFirst) ref.current?.focus({ preventScroll: true })
    isFirst = false
  }, [])
  useEffect(() => {
    document.title = `${title.length > MAX_TITLE_LENGTH ? `${title.slice(0, MAX_TITLE_LENGTH)}…` : title} · Pawl`
  }, [title])
  return (
    <div class={`page page-${width}`}>
      <header class="page-head">
        <div class="page-title">
          <h1 ref={ref} tabIndex={-1}>
            {heading ?? title}
          </h1>
          {intro !== undefined && <p class="page-intro">{intro}</p>}
        </div>
        {actions !== undefined && <div class="page-actions">{actions}</div>}
      </header>
      {children}
    </div>
  )
}

interface SectionProps {
  readonly title: ComponentChildren
  readonly aside?: ComponentChildren
  readonly children: ComponentChildren
  readonly class?: string
}

/** A part of a page under a heading of its own. */
export function Section({ title, aside, children, class: className = '' }: SectionProps) {
  return (
    <section class={`section ${className}`}>
      <header class="section-head">
        <h2>{title}</h2>
        {aside !== undefined && <div class="section-aside">{aside}</div>}
      </header>
      {children}
    </section>
  )
}
