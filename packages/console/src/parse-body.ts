import { invalid } from './parse-query.js'

/** The body of a change: an object with members that are known. */
export type Body = Readonly<Record<string, unknown>>

export function readBody(body: unknown, known: readonly string[]): Body {
  if (typeof body !== 'object' || body === null || Array.isArray(body))
    throw invalid('The body has to be a JSON object.')
  const unknown = Object.keys(body).find((name) => !known.includes(name))
  if (unknown !== undefined)
    throw invalid(`The body has no member '${unknown.slice(0, 80)}'. It takes ${known.join(', ')}.`)
  return body as Body
}

export function reasonOf({ reason }: Body): string {
  if (typeof reason === 'string' && reason.trim() !== '') return reason
  throw invalid('reason is missing: say why, for whoever reads it next year.')
}

/** The row as the person saw it: they decided by that. */
export function revisionOf({ ifRevision }: Body): { readonly ifRevision?: number } {
  if (ifRevision === undefined) return {}
  if (typeof ifRevision === 'number' && Number.isSafeInteger(ifRevision) && ifRevision >= 0)
    return { ifRevision }
  throw invalid('ifRevision has to be the revision of the key as it was shown.')
}

export function flagOf(body: Body, name: string): boolean {
  const value = body[name]
  if (value === undefined || typeof value === 'boolean') return value ?? false
  throw invalid(`${name} has to be true or false.`)
}
