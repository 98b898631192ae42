// Writes the index of docs/internals.md: which tests show which guarantee. `--print` prints the page instead.
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const PAGE = join(ROOT, 'docs/internals.md')
const BEGIN = '<!-- guarantee index -->'
const END = '<!-- end of guarantee index -->'

/** Such as `// Shows I1, I5.`, in a line of its own above a test. */
const SHOWS = /^\s*\/\/ Shows ((?:I\d+|L\d+)(?:, (?:I\d+|L\d+))*)\.$/

/** How many lines below the comment the title may be: `test.each` has its cases first. */
const LINES_TO_TITLE = 25

/**
 * Which tests show which guarantee.
 *
 * @returns {Promise<Map<string, { file: string, title: string }[]>>}
 */
async function readGuaranteeTests() {
  const found = new Map()
  for (const file of await testFiles(join(ROOT, 'test'))) {
    const lines = (await readFile(file, 'utf8')).split('\n')
    for (const [index, line] of lines.entries()) {
      const guarantees = SHOWS.exec(line)?.[1]?.split(', ') ?? []
      if (guarantees.length === 0) continue
      const title = titleBelow(lines, index)
      if (title === null)
        throw new Error(`${relative(ROOT, file)}:${index + 1}: no test follows this comment.`)
      const named = [...describesAround(lines, index), title].join(' › ')
      for (const guarantee of guarantees) {
        const tests = found.get(guarantee) ?? []
        found.set(guarantee, [...tests, { file: relative(ROOT, file), title: named }])
      }
    }
  }
  return found
}

/** @param {string[]} lines @param {number} index */
function titleBelow(lines, index) {
  const below = lines.slice(index + 1, index + 1 + LINES_TO_TITLE).join('\n')
  const called = /^\s*(?:test|describe)(?:\.each)?\b/.exec(below)
  if (called === null) return null
  const match = /(?:^\s*(?:test|describe)\(|\)\()\s*(['"`])((?:(?!\1)[^\\]|\\.)*)\1/m.exec(below)
  return match?.[2]?.replaceAll('\\', '') ?? null
}

/** The title of a `describe.each` that is only the name of its case, such as `$how`, says nothing here. */
const PLACEHOLDER = /^(?:\$\w+|%\w)$/

/**
 * The titles of the `describe` blocks around a line, the outermost first. The formatter indents what is in a block, so the next
 * line above that is indented less opens it.
 *
 * @param {string[]} lines
 * @param {number} index
 */
function describesAround(lines, index) {
  const titles = []
  let indent = indentOf(lines[index] ?? '')
  for (const line of lines.slice(0, index).toReversed()) {
    if (line === '' || indentOf(line) >= indent) continue
    indent = indentOf(line)
    const title = /(?:^\s*describe\(|\)\()(['"`])((?:(?!\1)[^\\]|\\.)*)\1/.exec(line)?.[2]
    if (title !== undefined && !PLACEHOLDER.test(title)) titles.unshift(title.replaceAll('\\', ''))
  }
  return titles
}

/** @param {string} line */
function indentOf(line) {
  return line.length - line.trimStart().length
}

/** @param {string} folder */
async function testFiles(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries
    .filter(
      ({ name, parentPath }) =>
        name.endsWith('.test.ts') && !/\/(?:node_modules|dist)(?:\/|$)/.test(parentPath),
    )
    .map(({ name, parentPath }) => join(parentPath, name))
    .toSorted()
}

/**
 * Returns the page with the index that the comments in the tests describe.
 *
 * @param {string} page
 */
async function withGuaranteeIndex(page) {
  const [before, rest] = page.split(BEGIN)
  const [, after] = (rest ?? '').split(END)
  if (before === undefined || after === undefined)
    throw new Error(`docs/internals.md has no place for the index: ${BEGIN}`)
  const found = await readGuaranteeTests()
  const rows = [...found]
    .toSorted(([a], [b]) => order(a) - order(b))
    .map(([guarantee, tests]) => {
      const places = tests.map(({ file, title }) => `[${title}](../${file})`)
      return `- **${guarantee}**: ${places.join('; ')}`
    })
  return `${before}${BEGIN}\n\n${rows.join('\n')}\n\n${END}${after}`
}

/** I1 to I15, then L1. @param {string} guarantee */
function order(guarantee) {
  return Number(guarantee.slice(1)) + (guarantee.startsWith('L') ? 1_000 : 0)
}

const page = await withGuaranteeIndex(await readFile(PAGE, 'utf8'))
if (process.argv[2] === '--print') process.stdout.write(page)
else await writeFile(PAGE, page)
