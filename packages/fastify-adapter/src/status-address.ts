/**
 * What is put between the address of a request and its id, to ask for its status. Routes of one path may have hooks of their
 * own for each method, so each has a status of its own; that of POST, which nearly all have, is the short one.
 */
export function statusSuffix(statusPath: string, methods: readonly string[]): string {
  const names = methods.map((method) => method.toLowerCase()).join('-')
  return names === 'post' ? statusPath : `${statusPath}/${names}`
}

/** Where the status of a request is asked for, but for its id: below the address that it was sent to. */
export function statusBelow(path: string, suffix: string): string {
  let [from, to] = [0, path.length]
  while (path[to - 1] === '/') to--
  // A client would take what follows two slashes for the name of a host.
  while (path[from] === '/' && path[from + 1] === '/') from++
  return `${path.slice(from, Math.max(from, to))}${suffix}`
}
