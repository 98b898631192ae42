/**
 * Rewrites a statement so that nothing on the search path can take the place of what PostgreSQL itself provides:
 * operators, functions, types and catalogs are qualified with their schema, `pg_catalog`.
 *
 * Without it, whoever may create objects in a schema on the path can have our statements run their code, with the rights
 * of the role that sends them: `numeric * integer` has no operator of exactly these types, so `public.*` of these types
 * wins; and where the path names `pg_catalog` last, even an exact match loses. A search path of our own would achieve the
 * same, but our statements fire triggers of the application, and those need the application's path.
 *
 * It reads our own statements, not arbitrary SQL, and refuses what it cannot keep safe. They follow three rules: keywords
 * are in upper case and names in lower case; a function's name stands right before its parenthesis, a keyword does not;
 * an operator that binds tighter than the one before it is in parentheses, since `OPERATOR(…)` has one precedence for
 * all.
 */
export function qualified(sql: string): string {
  const expressions = new Expressions()
  let written = ''
  let before: Token | null = null
  for (const token of tokensOf(sql)) {
    const refuse = (why: string): never => {
      throw new TypeError(`In a statement of the framework, '${token.text}' ${why}.\n${sql}`)
    }
    written += token.gap + qualifiedToken(token, before, expressions, refuse)
    before = token
  }
  return written
}

const CATALOG = 'pg_catalog'

function qualifiedToken(
  token: Token,
  before: Token | null,
  expressions: Expressions,
  refuse: (why: string) => never,
): string {
  const { kind, text, rest } = token
  switch (kind) {
    case 'opening':
      expressions.open()
      return text
    case 'closing':
      expressions.close()
      return text
    case 'separator':
      expressions.separate()
      return text
    case 'keyword':
      if (hidesAnOperator(token)) refuse('stands for an operator that is looked up: write it out')
      if (rest.startsWith('(') && text !== 'ARRAY')
        refuse('is written like a function, whose name is lower case')
      expressions.pass(text)
      return text
    case 'operator':
      if (text === '*' && !isOperand(before)) return text
      if (text === '=' && expressions.assigns()) return text
      if (!isOperand(before) || /--|\/\*/.test(text)) refuse('does not stand between two operands')
      if (!expressions.keepMeaning(text)) refuse('binds tighter than the operator before it: use parentheses')
      return `OPERATOR(${CATALOG}.${text})`
    case 'name':
      return isOfCatalog(token, before) ? `${CATALOG}.${text}` : text
    case 'other':
      return text
  }
}

interface Token {
  readonly kind: 'opening' | 'closing' | 'separator' | 'keyword' | 'operator' | 'name' | 'other'
  readonly text: string
  /** White space before it. */
  readonly gap: string
  /** What follows it. */
  readonly rest: string
}

const TOKEN = new RegExp(
  [
    String.raw`(\s*)(?:`,
    String.raw`(?<other>'(?:[^']|'')*'|"(?:[^"]|"")*"|\$\d+|\d+(?:\.\d+)?|::|\.)`,
    String.raw`|(?<opening>[([])|(?<closing>[)\]])|(?<separator>[,;])`,
    String.raw`|(?<keyword>[A-Z][A-Z_]*(?![a-z0-9_]))|(?<name>[a-z_][a-z0-9_]*)`,
    String.raw`|(?<operator>[-+*/<>=~!@#%^&|]+))`,
  ].join(''),
  'y',
)

/** As much as is needed to see the next word. */
const LOOK_AHEAD = 80

function* tokensOf(sql: string): Generator<Token> {
  const end = sql.trimEnd().length
  for (let at = 0; at < end;) {
    TOKEN.lastIndex = at
    const match = TOKEN.exec(sql)
    if (match === null)
      throw new TypeError(`A statement of the framework cannot be read from '${sql.slice(at, at + 40)}'.`)
    const [whole, gap = ''] = match
    const [kind] = Object.entries(match.groups ?? {}).find(([, text]) => text !== undefined) ?? ['other']
    at += whole.length
    const rest = sql.slice(at, at + LOOK_AHEAD)
    yield { kind: kind as Token['kind'], text: whole.slice(gap.length), gap, rest }
  }
}

const HIDE_AN_OPERATOR = new Set(['IN', 'BETWEEN', 'LIKE', 'ILIKE', 'SIMILAR', 'NULLIF', 'NATURAL'])

/** Whether it stands for `=`, `~~` or the like, which PostgreSQL then looks up without a schema. */
function hidesAnOperator({ text, rest }: Token): boolean {
  if (text === 'CASE') return !/^\s+WHEN\b/.test(rest)
  if (text === 'DISTINCT') return /^\s+FROM\b/.test(rest)
  if (text === 'USING') return /^\s*\((?!\s*SELECT\b)/.test(rest)
  return HIDE_AN_OPERATOR.has(text)
}

/** Parts of the language that are written like functions: PostgreSQL does not look for them. */
const SYNTAX = new Set(['coalesce', 'greatest', 'least', 'extract'])

/** Types that are part of the language as well. All others are looked up by name. */
const TYPES_OF_LANGUAGE = new Set([
  'bigint',
  'boolean',
  'double',
  'integer',
  'interval',
  'numeric',
  'smallint',
])

/**
 * Functions are recognized by their parenthesis, types by the cast before them, catalogs and their views by their prefix.
 */
function isOfCatalog(name: Token, before: Token | null): boolean {
  if (before?.text === '.' || name.rest.startsWith('.')) return false
  if (before?.text === '::') return !TYPES_OF_LANGUAGE.has(name.text)
  if (name.rest.startsWith('(')) return !SYNTAX.has(name.text)
  return name.text.startsWith('pg_')
}

/** Whether an operator can follow. */
function isOperand(token: Token | null): boolean {
  if (token === null) return false
  if (token.kind === 'keyword') return token.text === 'END' || token.text === 'NULL'
  return token.kind === 'closing' || token.kind === 'name' || (token.kind === 'other' && token.text !== '.')
}

/** The expressions that are open at some point of a statement: one for each parenthesis and each CASE around it. */
class Expressions {
  /**
   * How tightly the last operator binds (null if there was none so far), and whether this is the list of a SET, before
   * its `=`.
   */
  readonly #open: { binding: number | null; list: boolean; target: boolean }[] = []

  constructor() {
    this.open()
  }

  open(): void {
    this.#open.push({ binding: null, list: false, target: false })
  }

  close(): void {
    this.#open.pop()
  }

  separate(): void {
    const { list } = this.#innermost
    Object.assign(this.#innermost, { binding: null, target: list })
  }

  pass(keyword: string): void {
    if (keyword === 'CASE') this.open()
    else if (keyword === 'END') this.close()
    else if (keyword === 'SET') Object.assign(this.#innermost, { binding: null, list: true, target: true })
    else if (ENDS_A_SET.has(keyword))
      Object.assign(this.#innermost, { binding: null, list: false, target: false })
    else if (keyword !== 'NULL') this.#innermost.binding = null
  }

  /** Whether this `=` sets a column. The next one compares. */
  assigns(): boolean {
    const { target } = this.#innermost
    this.#innermost.target = false
    return target
  }

  /**
   * Notes an operator. Returns false when it would get other operands as `OPERATOR(…)`, which always has the same
   * precedence.
   */
  keepMeaning(operator: string): boolean {
    const last = this.#innermost.binding
    const binding = bindingOf(operator)
    this.#innermost.binding = binding
    return last === null || binding < last || (binding === last && binding !== COMPARISON)
  }

  get #innermost(): { binding: number | null; list: boolean; target: boolean } {
    const innermost = this.#open.at(-1)
    if (innermost === undefined)
      throw new TypeError('A statement of the framework closes what it did not open.')
    return innermost
  }
}

const ENDS_A_SET = new Set(['FROM', 'WHERE', 'RETURNING'])

const COMPARISON = 1

/** PostgreSQL's own precedence. */
function bindingOf(operator: string): number {
  if (/^(?:[<>=]|<=|>=|<>|!=)$/.test(operator)) return COMPARISON
  if (/^[-+]$/.test(operator)) return 3
  if (/^[*/%]$/.test(operator)) return 4
  return operator === '^' ? 5 : 2
}
