const STEPS: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1 }

/** From the link of one row to that of the next. For tables: Tab still goes through all that is in a row. */
export function moveBetweenRows(event: KeyboardEvent & { readonly currentTarget: HTMLElement }): void {
  const step = STEPS[event.key]
  const { target } = event
  const isTyped = target instanceof HTMLInputElement || target instanceof HTMLSelectElement
  if (step === undefined || isTyped || event.metaKey || event.ctrlKey || event.altKey) return
  const links = [...event.currentTarget.querySelectorAll<HTMLElement>('.row-link')]
  const row = (target as Element).closest('.row')
  const at = links.findIndex((link) => row?.contains(link))
  const next = links[at + step]
  if (next === undefined) return
  event.preventDefault()
  next.focus()
  next.scrollIntoView({ block: 'nearest' })
}
