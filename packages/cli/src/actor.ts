import { hostname, userInfo } from 'node:os'

/** Who does it, for the record: as given, or else as far as the system knows. */
export function actorOf(
  given: string | undefined,
  env: Readonly<Record<string, string | undefined>>,
): string {
  const named = given ?? env['PAWL_ACTOR']
  return named === undefined || named.trim() === '' ? `${userName(env)}@${hostname()}` : named
}

function userName(env: Readonly<Record<string, string | undefined>>): string {
  try {
    return userInfo().username
  } catch {
    // A container's user need not have a name.
    return env['USER'] ?? 'unknown'
  }
}
