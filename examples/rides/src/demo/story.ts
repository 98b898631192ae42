/** Whom something happens to, with the colour that each has on a terminal. */
const COLOURS = { client: 36, api: 33, stripe: 35, database: 34, demo: 32, hand: 31, worker: 90 } as const
export type Who = keyof typeof COLOURS

const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏']
const FRAME_MS = 80

/** Tells the story, a line per event: in colour on a terminal, plain in a pipe, and nothing for machines. */
export class Story {
  readonly #silent: boolean
  readonly #colour: boolean
  /** Whether this is a terminal, where a line can be overwritten. */
  readonly #moves: boolean
  readonly #start = performance.now()

  constructor(silent: boolean, stream: NodeJS.WriteStream = process.stdout) {
    this.#silent = silent
    this.#moves = stream.isTTY
    this.#colour = stream.isTTY && process.env['NO_COLOR'] === undefined
  }

  chapter(title: string): void {
    this.#print(`\n${this.#paint(1, title)}`)
  }

  tell(who: Who, what: string): void {
    const seconds = ((performance.now() - this.#start) / 1_000).toFixed(2).padStart(6)
    this.#print(`${this.#paint(2, `${seconds} s`)}  ${this.#paint(COLOURS[who], who.padEnd(8))}  ${what}`)
  }

  /** A table with a line per row; the columns are as wide as their contents. */
  table(head: readonly string[], rows: readonly (readonly string[])[]): void {
    const widths = head.map((title, at) => Math.max(title.length, ...rows.map((row) => row[at]?.length ?? 0)))
    const line = (cells: readonly string[]) =>
      cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  ')
    this.#print(`\n${this.#paint(1, line(head))}`)
    this.#print(this.#paint(2, widths.map((width) => '─'.repeat(width)).join('  ')))
    for (const row of rows) this.#print(line(row))
  }

  /** Shows on a terminal that something takes its time, and what. */
  async during<T>(what: string, work: Promise<T>): Promise<T> {
    if (this.#silent || !this.#moves) return work
    let frame = 0
    const spinner = setInterval(() => {
      process.stdout.write(`\r${FRAMES[frame++ % FRAMES.length]} ${what}…`)
    }, FRAME_MS)
    try {
      return await work
    } finally {
      clearInterval(spinner)
      process.stdout.write('\r\u001B[K')
    }
  }

  /** What another program has printed, set off from the story. */
  quote(command: string, lines: readonly string[]): void {
    this.#print(`\n    ${this.#paint(1, `$ ${command}`)}`)
    for (const line of lines) this.#print(line === '' ? '' : `    ${line}`)
    this.#print('')
  }

  say(text: string): void {
    this.#print(text)
  }

  #print(text: string): void {
    if (this.#silent) return
    process.stdout.write(`${this.#moves ? '\r\u001B[K' : ''}${text}\n`)
  }

  #paint(code: number, text: string): string {
    return this.#colour ? `\u001B[${code}m${text}\u001B[0m` : text
  }
}
