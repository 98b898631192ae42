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
  return titleOf(lines.slice(index + 1, index + 1 + LINES_TO_TITLE).join('\n'))
}

/** The list of cases of an `each`, and the title. */
const OPENING = /^\s*(?:test|describe)(?:\.each(?:<[^(]*>)?\(([^]*?)\))?\(\s*(['"`])((?:(?!\2)[^\\]|\\.)*)\2/

/**
 * The title of a test or a `describe`, in words that can be read without its file: a placeholder becomes the name of what is
 * put there, and the list that it is taken from is named.
 *
 * @param {string} text begins with the call
 */
function titleOf(text) {
  const [, cases = '', , written] = OPENING.exec(text) ?? []
  if (written === undefined) return null
  const title = written.replaceAll('\\', '').replace(/:$/, '')
  const values = [...cases.matchAll(/^\[([^{}[\]]*)\]/g)].flatMap(([, list = '']) =>
    [...list.matchAll(/'([^']*)'/g)].map(([, value]) => value),
  )
  const lists = [...new Set(cases.match(/\b(?:[A-Z][A-Z_]+|(?<!\.)[a-z]+[A-Z]\w*(?!\w*\())\b/g) ?? [])]
  const source = values.length > 0 ? values.join(' or ') : `each of ${lists.join(' and ') || 'its cases'}`
  if (/^(?:\$\w+|%\w)$/.test(title)) return source
  const named = title
    .replaceAll(/\$(\w+)/g, '‹$1›')
    .replaceAll(/%\w/g, values.length > 0 ? source : `‹${source}›`)
    // A value may begin with a space, and the formatter leaves one.
    .replaceAll(/ {2,}/g, ' ')
  return /\$\w/.test(title) && lists.length > 0 ? `${named}, for ${source}` : named
}

/**
 * The titles of the `describe` blocks around a line, the outermost first. The formatter indents what is in a block, so the next
 * line above that is indented less opens it, or ends the list of its cases.
 *
 * @param {string[]} lines
 * @param {number} index
 */
function describesAround(lines, index) {
  const titles = []
  let indent = indentOf(lines[index] ?? '')
  for (let at = index - 1; at >= 0; at--) {
    const line = lines[at] ?? ''
    if (line === '' || indentOf(line) >= indent) continue
    indent = indentOf(line)
    const opening = ' '.repeat(indent) + 'describe'
    const from = lines.slice(0, at + 1).findLastIndex((above) => above.startsWith(opening))
    const isOpening = from === at || (from !== -1 && /^\s*[\])]/.test(line))
    const title = isOpening ? titleOf(lines.slice(from, at + 1).join('\n')) : null
    if (title !== null) titles.unshift(title)
  }
  return titles
}

/** What each guarantee promises, by its name. */
async function readPromises() {
  const page = await readFile(join(ROOT, 'docs/guarantees.md'), 'utf8')
  return new Map(
    [...page.matchAll(/^\| ([IL]\d+) +\| (.*?) +\|/gm)].map(([, name, promise]) => [name, promise]),
  )
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
  const promises = await readPromises()
  const rows = [...found]
    .toSorted(([a], [b]) => order(a) - order(b))
    .map(([guarantee, tests]) => {
      const places = tests.map(({ file, title }) => `  - [${title}](../${file})`)
      return [`- **${guarantee}**: ${promises.get(guarantee)}`, ...places].join('\n')
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
