/** What a client asks for with `Prefer` (RFC 7240), as far as we support it. */
export interface Preferences {
  /** It would rather be told at once that the request was accepted. */
  readonly respondAsync: boolean
  /** How long it would wait for the response anyway; 0 where it does not say. */
  readonly waitMs: number
}

/** One element of a list. Commas inside quotes do not end it; an unclosed quote takes the rest. */
const ELEMENT = /(?:[^",]|"(?:[^"\\]|\\.)*(?:"|\\?$))+/g

/** What cannot be read is ignored, as the RFC requires for every preference that a server does not know. */
export function readPrefer(header: string | readonly string[] | undefined): Preferences {
  const given = new Map<string, string>()
  for (const [element] of [header ?? []].flat().join(',').matchAll(ELEMENT)) {
    const { name, value } = readPreference(element)
    // Of two, the first counts.
    if (!given.has(name)) given.set(name, value)
  }
  const wait = given.get('wait') ?? ''
  return {
    // It takes no value; an empty value counts as none.
    respondAsync: given.get('respond-async') === '',
    waitMs: /^\d+$/.test(wait) ? Number(wait) * 1_000 : 0,
  }
}

/** Its parameters are left out: none is defined for the preferences we support. */
function readPreference(element: string): { readonly name: string; readonly value: string } {
  const [preference = ''] = element.split(';', 1)
  const [name = '', ...rest] = preference.split('=')
  const value = rest.join('=')
  return { name: name.trim().toLowerCase(), value: value.trim().replace(/^"([^"]*)"$/, '$1') }
}
