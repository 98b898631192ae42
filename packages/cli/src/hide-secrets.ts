const PASSWORD_IN_URL = /(\b[a-z][a-z0-9+.-]*:\/\/[^\s:@/]*):[^\s@/]*@/gi

/** The text without the password of the database's URL, however it came in there, and of any other URL. */
export function hideSecrets(text: string, databaseUrl: string | undefined): string {
  const hidden = passwordsOf(databaseUrl).reduce((rest, password) => rest.replaceAll(password, '***'), text)
  return hidden.replaceAll(PASSWORD_IN_URL, '$1:***@')
}

/** As it is written, and as it is meant. */
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
