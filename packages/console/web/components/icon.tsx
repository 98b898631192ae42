/** Strokes on a grid of 16, drawn for this page. */
const PATHS = {
  map: 'M2.5 8h3m5 0h3M5.5 5.5v5h5v-5z',
  requests: 'M3 4.5h10M3 8h10M3 11.5h6',
  inbox: 'M2.5 9.5 4.5 3.5h7l2 6v3h-11zm0 0h3.5l1 1.5h2l1-1.5h3.5',
  duplicates: 'M6 6h7v7H6zM3 10V3h7',
  dead: 'M3 4.5h10v7.5H3zm0 .5 5 4 5-4',
  reconciliation: 'M3 5.5h8.5m-2-2.5 2.5 2.5L9.5 8M13 10.5H4.5m2-2.5L4 10.5 6.5 13',
  interventions: 'M8 2.5a2.5 2.5 0 1 1 0 5 2.5 2.5 0 0 1 0-5ZM3 13.5c.5-2.5 2.5-4 5-4s4.5 1.5 5 4',
  search: 'M7 3a4 4 0 1 1 0 8 4 4 0 0 1 0-8Zm3 7 3.5 3.5',
  copy: 'M6 6h7v7H6zM3 10V3h7',
  check: 'M3 8.5 6.5 12 13 4.5',
  close: 'm4 4 8 8m0-8-8 8',
  more: 'M4 8h.01M8 8h.01M12 8h.01',
  external: 'M6.5 3.5H3v9.5h9.5V9.5M9.5 3H13v3.5M13 3 7.5 8.5',
  eye: 'M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8Zm6.5-2a2 2 0 1 1 0 4 2 2 0 0 1 0-4Z',
  sun: 'M8 5.5a2.5 2.5 0 1 1 0 5 2.5 2.5 0 0 1 0-5ZM8 1.5v1.5m0 10v1.5M1.5 8H3m10 0h1.5M3.4 3.4l1.1 1.1m7 7 1.1 1.1m0-9.2-1.1 1.1m-7 7-1.1 1.1',
  moon: 'M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5Z',
  auto: 'M8 2.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11Zm0 0v11m1.5-9v7m1.5-6v5m1.5-3.5v2',
  back: 'M9.5 3.5 5 8l4.5 4.5',
  right: 'M6.5 3.5 11 8l-4.5 4.5',
  down: 'M3.5 6.5 8 11l4.5-4.5',
  reload: 'M13 8a5 5 0 1 1-1.5-3.5M12 2v3H9',
  call: 'M3 8h9m-3.5-3.5L12 8l-3.5 3.5',
  warning: 'M8 2.5 14 13H2zM8 6.5v3m0 1.5v.01',
} as const

export type IconName = keyof typeof PATHS

/** Goes with words: nothing is said by it alone. */
export function Icon({ name, class: className = '' }: { readonly name: IconName; readonly class?: string }) {
  return (
    <svg
      class={`icon ${className}`}
      viewBox="0 0 16 16"
      width="16"
      height="16"
      aria-hidden="true"
      focusable="false"
    >
      <path d={PATHS[name]} />
    </svg>
  )
}
