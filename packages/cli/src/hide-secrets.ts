import { urlAuthorities } from '@pawl/core/internal'

/** The text without the password of the database's URL, however it got there, and without that of any other URL. */
export function hideSecrets(text: string, databaseUrl: string | undefined): string {
  const hidden = passwordsOf(databaseUrl).reduce((rest, password) => rest.replaceAll(password, '***'), text)
  return hideInUrls(hidden)
}

function hideInUrls(text: string): string {
  let from = 0
  let hidden = ''
  for (const { start, end } of urlAuthorities(text)) {
    const authority = text.slice(start, end)
    const colon = authority.indexOf(':')
    const at = authority.lastIndexOf('@')
    if (colon === -1 || at < colon) continue
    hidden += `${text.slice(from, start + colon)}:***`
    from = start + at
  }
  return hidden + text.slice(from)
}

/** The password as it is written, and decoded. */
function passwordsOf(url: string | undefined): string[] {
  if (url === undefined || !URL.canParse(url)) return []
  const { password, searchParams } = new URL(url)
  const passwords = [password, decodeURIComponentSafely(password), searchParams.get('password') ?? '']
  return passwords.filter((each) => each !== '')
}

function decodeURIComponentSafely(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
