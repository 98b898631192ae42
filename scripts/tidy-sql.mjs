/**
 * A word, a quoted text or a parenthesis with what is in it; and whether white space comes before it.
 *
 * @typedef {{ text: string, inner: Node[] | null, spaced: boolean }} Node
 */

/** Lines are broken before they become longer than this, so that a page need not be scrolled sideways. */
const MAX_LINE = 110

/** Each of these begins a line of its own in a query that takes several lines. */
const CLAUSES = new Set(
  'WITH SELECT FROM WHERE SET VALUES RETURNING GROUP ORDER FOR JOIN LEFT CROSS UNION UPDATE INSERT DELETE WINDOW'.split(
    ' ',
  ),
)

/** Where one of those words does not begin a clause: after these words, or before that one. */
const WITHIN =
  /(?:DISTINCT FROM|ROWS FROM|DELETE FROM|FOR UPDATE|KEY UPDATE|LEFT JOIN|CROSS JOIN|WITH ORDINALITY)$/

/** The branches of a CASE. */
const OF_CASE = ['WHEN', 'ELSE']

/** Writes a statement in lines of a bearable length. Only white space changes. @param {string} sql */
export function tidySql(sql) {
  const nodes = parse(sql)
  const tidy = format(nodes, 0).join('\n')
  if (flat(parse(tidy)) !== flat(nodes)) throw new Error(`Tidying would have changed a statement:\n${tidy}`)
  return tidy
}

/** @param {string} sql */
function parse(sql) {
  /** @type {Node[][]} */
  const open = [[]]
  for (const [whole, space = '', token = ''] of sql.matchAll(
    /(\s*)('(?:[^']|'')*'|"[^"]*"|[(),]|[^\s(),'"]+)/g,
  )) {
    const siblings = open.at(-1) ?? []
    // White space inside of a parenthesis' ends is not kept, nor is any before a comma.
    const spaced = space !== '' && siblings.length > 0 && token !== ','
    if (token === ')') {
      open.pop()
      continue
    }
    const node = { text: token, inner: token === '(' ? [] : null, spaced }
    siblings.push(node)
    if (node.inner !== null) open.push(node.inner)
    if (whole === '') break
  }
  const [nodes = []] = open
  return nodes
}

/** @param {Node[]} nodes @returns {string} */
function flat(nodes) {
  const text = nodes.map(({ text: own, inner, spaced }) => {
    return (spaced ? ' ' : '') + (inner === null ? own : `(${flat(inner)})`)
  })
  return text.join('').trimStart()
}

/** @param {Node[]} nodes @param {number} indent @returns {string[]} */
function format(nodes, indent) {
  const pad = ' '.repeat(indent)
  if (fits(pad + flat(nodes))) return [pad + flat(nodes)]
  const clauses = isQuery(nodes) ? clausesOf(nodes) : []
  if (clauses.length > 0) return clauses.flatMap((clause) => formatClause(clause, indent))
  for (const separator of [',', 'OR', 'AND']) {
    const parts = split(nodes, separator)
    if (parts.length > 1) return fill(parts, separator, pad, pad)
  }
  return breakPart(nodes, pad)
}

/** @param {Node[]} nodes */
function isQuery([first, ...others]) {
  const begins = ['WITH', 'SELECT', 'INSERT', 'UPDATE', 'DELETE']
  return begins.includes(first?.text ?? '') || others.some(({ text }) => text === 'UNION')
}

/** @param {Node[]} nodes */
function clausesOf(nodes) {
  /** @type {Node[][]} */
  const clauses = [[]]
  for (const [index, node] of nodes.entries()) {
    const [before = '', after = ''] = [nodes[index - 1]?.text, nodes[index + 1]?.text]
    const isWithin =
      WITHIN.test(`${before} ${node.text}`) ||
      WITHIN.test(`${node.text} ${after}`.replace(/^(?!WITH ).*/, ''))
    const isOnConflict = node.text === 'ON' && after === 'CONFLICT'
    if (index > 0 && ((CLAUSES.has(node.text) && !isWithin) || isOnConflict)) clauses.push([])
    clauses.at(-1)?.push(node)
  }
  return clauses
}

/** @param {Node[]} clause @param {number} indent */
function formatClause(clause, indent) {
  const pad = ' '.repeat(indent)
  if (fits(pad + flat(clause))) return [pad + flat(clause)]
  const [head, ...rest] = clause
  if (head === undefined || head.inner !== null) return breakPart(clause, pad)
  const start = `${pad}${head.text} `
  if (head.text === 'WITH') return formatWith(rest, start, pad)
  if (head.text === 'WHERE') return fill(split(rest, 'AND'), 'AND', start, `${pad}  AND `)
  return fill(split(rest, ','), ',', start, ' '.repeat(start.length))
}

/** Each query of a WITH in lines of its own. @param {Node[]} nodes @param {string} start @param {string} pad */
function formatWith(nodes, start, pad) {
  const lines = []
  let line = start
  for (const { text, inner, spaced } of nodes) {
    if (spaced && line !== start) line += ' '
    if (inner === null || fits(`${line}(${flat(inner)})`)) line += inner === null ? text : `(${flat(inner)})`
    else {
      lines.push(`${line}(`, ...format(inner, pad.length + 2))
      line = `${pad})`
    }
  }
  return [...lines, line]
}

/**
 * As many parts in each line as fit.
 *
 * @param {Node[][]} parts
 * @param {string} separator a comma, which ends a line, or a word, which begins it
 * @param {string} start of the first line
 * @param {string} more the start of the others
 */
function fill(parts, separator, start, more) {
  const isComma = separator === ','
  const lines = []
  let line = start
  let isFresh = true
  for (const [index, part] of parts.entries()) {
    const end = isComma && index < parts.length - 1 ? ',' : ''
    const joint = isFresh ? '' : isComma ? ' ' : ` ${separator} `
    if (!isFresh && !fits(line + joint + flat(part) + end)) {
      lines.push(line)
      line = isComma || more.trim() !== '' ? more : `${more}${separator} `
      isFresh = true
    }
    if (isFresh && !fits(line + flat(part) + end)) {
      const broken = breakPart(part, line)
      line = broken.pop() ?? ''
      lines.push(...broken)
    } else {
      line += (isFresh ? '' : joint) + flat(part)
    }
    line += end
    isFresh = false
  }
  return [...lines, line]
}

/**
 * Breaks what is too long for one line: before each OR, AND or branch of a CASE, or else in its longest parenthesis.
 *
 * @param {Node[]} nodes
 * @param {string} start
 * @returns {string[]}
 */
function breakPart(nodes, start) {
  if (fits(start + flat(nodes))) return [start + flat(nodes)]
  for (const words of [['OR'], ['AND'], OF_CASE, ['THEN']]) {
    const [first = [], ...others] = splitBefore(nodes, words)
    const pad = ' '.repeat(indentOf(start) + 4)
    if (others.length > 0)
      return [...breakPart(first, start), ...others.flatMap((each) => breakPart(each, pad))]
  }
  return breakGroup(nodes, start)
}

/** Splits before these words, in no parenthesis and, unless they are its own, in no CASE. @param {Node[]} nodes @param {string[]} words */
function splitBefore(nodes, words) {
  /** @type {Node[][]} */
  const parts = [[]]
  let cases = 0
  for (const [index, node] of nodes.entries()) {
    if (node.text === 'END') cases--
    const isInCase = cases > (OF_CASE.includes(words[0] ?? '') || words[0] === 'THEN' ? 1 : 0)
    const isFirst = index === 0 || nodes[index - 1]?.text === 'CASE'
    if (words.includes(node.text) && !isInCase && !isFirst) parts.push([])
    parts.at(-1)?.push(node)
    if (node.text === 'CASE') cases++
  }
  return parts
}

/** Puts what is in the longest parenthesis into lines of its own. @param {Node[]} nodes @param {string} start @returns {string[]} */
function breakGroup(nodes, start) {
  const lengths = nodes.map(({ inner }) => (inner === null ? 0 : flat(inner).length))
  const at = lengths.indexOf(Math.max(...lengths))
  const inner = nodes[at]?.inner
  if (inner == null || inner.length === 0) return [start + flat(nodes)]
  const indent = indentOf(start)
  const before = flat([...nodes.slice(0, at), { text: '(', inner: null, spaced: nodes[at]?.spaced === true }])
  const after = flat([{ text: ')', inner: null, spaced: false }, ...nodes.slice(at + 1)])
  return [start + before, ...format(inner, indent + 2), ' '.repeat(indent) + after]
}

/** Splits at a comma or a word that is in no parenthesis. @param {Node[]} nodes @param {string} separator */
function split(nodes, separator) {
  /** @type {Node[][]} */
  const parts = [[]]
  // What is in a CASE does not separate.
  let cases = 0
  for (const node of nodes) {
    if (node.text === 'CASE') cases++
    if (node.text === 'END') cases--
    if (node.text === separator && cases === 0) parts.push([])
    else parts.at(-1)?.push(node)
  }
  return parts
}

/** @param {string} line */
function fits(line) {
  return line.length <= MAX_LINE
}

/** @param {string} line */
function indentOf(line) {
  return line.length - line.trimStart().length
}
