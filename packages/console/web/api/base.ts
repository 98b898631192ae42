/** The console's own address, which ends with a slash. It may be mounted anywhere, and this file lies directly in it. */
export const BASE: URL = new URL('./', import.meta.url)
