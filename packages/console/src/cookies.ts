/** The value of a cookie; null where the browser sent none of that name, or several. */
export function readCookie(header: string | undefined, name: string): string | null {
  const values = (header ?? '')
    .split(';')
    .map((pair) => pair.trim())
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1))
  // Another site of the same domain may have added one: nobody can tell which of them is ours.
  return values.length === 1 ? (values[0] ?? null) : null
}

/** A cookie that only this site's own pages send, that no script reads, and that ends with the browser. */
export function writeCookie(name: string, value: string, isSecure: boolean, path = '/'): string {
  return `${name}=${value}; Path=${path}; HttpOnly; SameSite=Strict${isSecure ? '; Secure' : ''}`
}
