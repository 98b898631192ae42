import { short } from './numbers.js'
import type { Line, Section } from './section.js'

// Sizes in pixels of a picture that is shown 800 wide.
const WIDTH = 800
const MARGIN = 16
const GAP = 24
const PANEL_WIDTH = (WIDTH - 2 * MARGIN - GAP) / 2
const LABEL_WIDTH = 144
const VALUE_WIDTH = 56
const BAR_HEIGHT = 20
const ROW_HEIGHT = 30
const HEADING_HEIGHT = 60
const FOOT_HEIGHT = 32
/** From the middle of a row to the base line of its text. */
const BASE_LINE = 5
/** A bar is never too short to be seen. */
const LEAST_BAR = 2

const STYLE = `
  text { font: 14px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #1f2328 }
  .heading { font-size: 16px; font-weight: 600 }
  .quiet { fill: #59636e }
  .paper { fill: #ffffff }
  .bar { fill: #8c959f }
  .own { fill: #0969da }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc }
    .quiet { fill: #9198a1 }
    .paper { fill: #0d1117 }
    .bar { fill: #656c76 }
    .own { fill: #4493f8 }
  }`

const PANELS = [
  { section: 'fresh C=32', heading: 'Fresh requests, 32 clients' },
  { section: 'slow provider', heading: 'Slow provider: 200 ms, 500 clients' },
] as const

/** Requests per second by contender, as bars. A section that was not measured leaves its half empty. */
export function drawChart(sections: readonly Section[]): string {
  const panels = PANELS.map(({ section, heading }) => ({
    heading,
    lines: sections.find(({ name }) => name === section)?.lines ?? [],
  }))
  const rows = Math.max(1, ...panels.map(({ lines }) => lines.length))
  const height = HEADING_HEIGHT + rows * ROW_HEIGHT + FOOT_HEIGHT
  const title = 'Requests per second by contender'
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="${title}">
<title>${title}</title>
<style>${STYLE}
</style>
<rect class="paper" width="${WIDTH}" height="${height}" rx="6"/>
${panels.map(({ heading, lines }, at) => drawPanel(heading, lines, MARGIN + at * (PANEL_WIDTH + GAP))).join('\n')}
<text class="quiet" x="${MARGIN}" y="${height - 12}">requests/s, median of the rounds; more is better</text>
</svg>
`
}

function drawPanel(heading: string, lines: readonly Line[], left: number): string {
  const most = Math.max(...lines.map(({ requestsPerSecond }) => requestsPerSecond.median))
  const bars = lines.map((line, at) => drawBar(line, most, left, HEADING_HEIGHT + at * ROW_HEIGHT))
  const empty =
    lines.length > 0 ? [] : [`<text class="quiet" x="${left}" y="${HEADING_HEIGHT + 15}">not measured</text>`]
  return [`<text class="heading" x="${left}" y="32">${escape(heading)}</text>`, ...bars, ...empty].join('\n')
}

function drawBar({ contender, requestsPerSecond }: Line, most: number, left: number, top: number): string {
  const from = left + LABEL_WIDTH
  const room = PANEL_WIDTH - LABEL_WIDTH - VALUE_WIDTH
  const length = Math.max(LEAST_BAR, (requestsPerSecond.median / most) * room)
  const base = top + BAR_HEIGHT / 2 + BASE_LINE
  const kind = contender.startsWith('pawl') ? 'bar own' : 'bar'
  return [
    `<text x="${from - 8}" y="${base}" text-anchor="end">${escape(contender)}</text>`,
    `<rect class="${kind}" x="${from}" y="${top}" width="${length.toFixed(1)}" height="${BAR_HEIGHT}" rx="2"/>`,
    `<text x="${(from + length + 6).toFixed(1)}" y="${base}">${short(requestsPerSecond.median)}</text>`,
  ].join('\n')
}

function escape(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
