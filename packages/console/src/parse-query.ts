import { ConsoleError } from './console-error.js'

/** Says what is wrong with what was sent. */
export function invalid(message: string): ConsoleError {
  return new ConsoleError('invalid', message)
}

/** The parameters of an address, by the names that a route knows. */
export type Query = Readonly<Record<string, string>>

/** Each name once, and none that the route does not know: a filter that is misspelt would show everything. */
export function readQuery(query: unknown, known: readonly string[]): Query {
  const given = Object.entries((query ?? {}) as Record<string, unknown>)
  for (const [name, value] of given) {
    if (!known.includes(name))
      throw invalid(
        `There is no parameter '${shortened(name)}'. It takes ${known.length === 0 ? 'none' : known.join(', ')}.`,
      )
    if (typeof value !== 'string') throw invalid(`The parameter '${name}' was given more than once.`)
  }
  // An empty field of a form means that nothing was chosen.
  return Object.fromEntries(given.filter(([, value]) => value !== '')) as Query
}

export function wholeNumber(query: Query, name: string, least: number, most: number): number | undefined {
  const text = query[name]
  if (text === undefined) return undefined
  const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
  if (number >= least && number <= most) return number
  throw invalid(`${name} is '${shortened(text)}'; it takes a whole number from ${least} to ${most}.`)
}

export function moment(query: Query, name: string): Date | undefined {
  const text = query[name]
  if (text === undefined) return undefined
  return parseMoment(name, text)
}

/** With a time zone: without one, it would be that of the server. */
const MOMENT = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2}))?$/

export function parseMoment(name: string, text: unknown): Date {
  if (typeof text === 'string' && MOMENT.test(text)) {
    const date = new Date(text)
    if (!Number.isNaN(date.getTime())) return date
  }
  throw invalid(`${name} has to be a moment such as 2026-03-31T12:00:00Z.`)
}

export function oneOf<const Choice extends string>(
  query: Query,
  name: string,
  choices: readonly Choice[],
): Choice | undefined {
  const text = query[name]
  if (text === undefined) return undefined
  const found = choices.find((choice) => choice === text)
  if (found === undefined)
    throw invalid(`${name} is '${shortened(text)}'; it takes one of ${choices.join(', ')}.`)
  return found
}

/** As much of a text as helps to recognize it. */
function shortened(text: string): string {
  return text.length > 80 ? `${text.slice(0, 80)}…` : text
}
