import { listLocked } from './installed.mjs'
import { StepFailed } from './step.mjs'

/** Licences that ask for no more than to be named: whoever uses Pawl gets no duties from them. SPDX identifiers. */
export const PERMISSIVE = new Set([
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'CC0-1.0',
  'ISC',
  'MIT',
  'MIT-0',
  'PostgreSQL',
  'Python-2.0',
  'Unlicense',
  'Zlib',
])

/**
 * What we use and do not ship, although its licence is another, and why. A name stands for its builds for each machine as well.
 *
 * @type {Readonly<Record<string, { readonly licence: string, readonly reason: string }>>}
 */
const EXCEPTIONS = {
  '@restatedev/restate-server': {
    licence: 'BSL',
    reason: 'one of those that the benchmark compares with; it may be run, and it is in no package of ours',
  },
  'axe-core': {
    licence: 'MPL-2.0',
    reason:
      'tests run it against the pages of the console; it is used unchanged, and it is in no package of ours',
  },
  '@fontsource-variable/inter': {
    licence: 'OFL-1.1',
    reason:
      "the console's typeface; its file is served unchanged, under its name and with the text of its licence, which asks for no more",
  },
  lightningcss: {
    licence: 'MPL-2.0',
    reason: 'vitest installs it for style sheets; it is used unchanged, and it is in no package of ours',
  },
}

/** Fails where something that is installed has a licence that is not permissive. */
export async function checkLicences() {
  const wrong = judgeLicences((await listLocked()).filter(({ isInstalled }) => isInstalled))
  if (wrong.length > 0) throw new StepFailed(wrong.join('\n'))
}

/**
 * What is wrong, one line for each package.
 *
 * @param {readonly Pick<import('./installed.mjs').Installed, 'id' | 'name' | 'licence' | 'isShipped'>[]} installed
 * @returns {string[]}
 */
export function judgeLicences(installed) {
  return installed.flatMap(({ id, name, licence, isShipped }) => {
    if (licence !== null && isPermissive(licence)) return []
    const exception = Object.entries(EXCEPTIONS).find(([of]) => name === of || name.startsWith(`${of}-`))?.[1]
    if (!isShipped && exception !== undefined && exception.licence === licence) return []
    const what =
      licence === null ? 'declares no licence' : `has the licence ${licence}, which is not permissive`
    const where = isShipped ? 'users of our packages get it' : 'we use it, and users do not get it'
    return [`${id} ${what} (${where})`]
  })
}

/**
 * An expression of SPDX: with OR, one has to be permissive; with AND, all.
 *
 * @param {string} expression
 * @returns {boolean}
 */
function isPermissive(expression) {
  // Brackets within brackets do not occur; if they ever do, the name is not on the list.
  const plain = expression.replace(/^\((.*)\)$/, '$1')
  if (PERMISSIVE.has(plain)) return true
  if (plain.includes(' OR ')) return plain.split(' OR ').some(isPermissive)
  return plain.includes(' AND ') && plain.split(' AND ').every(isPermissive)
}
