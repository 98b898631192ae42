/** What a client asks for with `Prefer` (RFC 7240), as far as it is heeded here. */
export interface Preferences {
  /** It would rather be told at once that the request was accepted. */
  readonly respondAsync: boolean
  /** How long it would wait for the response all the same; 0 where it does not say. */
  readonly waitMs: number
}

/** One part of a list. Commas inside quotes do not end it; a quote without its end takes the rest. */
const ELEMENT = /(?:[^",]|"(?:[^"\\]|\\.)*(?:"|\\?$))+/g

/** What cannot be read is ignored, as the RFC wants it of every preference that a server does not know. */
export function readPrefer(header: string | readonly string[] | undefined): Preferences {
  const given = new Map<string, string>()
  for (const [element] of [header ?? []].flat().join(',').matchAll(ELEMENT)) {
    const { name, value } = readPreference(element)
    // Of two, the first counts.
    if (!given.has(name)) given.set(name, value)
  }
  const wait = given.get('wait') ?? ''
  return {
    // It has no value; an empty one is none.
    respondAsync: given.get('respond-async') === '',
    waitMs: /^\d+$/.test(wait) ? Number(wait) * 1_000 : 0,
  }
}

/** Its parameters are left out: none is defined for what is heeded here. */
function readPreference(element: string): { readonly name: string; readonly value: string } {
  const [preference = ''] = element.split(';', 1)
  const [name = '', ...rest] = preference.split('=')
  const value = rest.join('=')
  return { name: name.trim().toLowerCase(), value: value.trim().replace(/^"([^"]*)"$/, '$1') }
}
