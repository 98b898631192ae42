import type { Finding } from './operator.js'

export function ok(check: string, detail: string): Finding {
  return { check, level: 'ok', detail, remedy: null }
}

export function warning(check: string, detail: string, remedy: string): Finding {
  return { check, level: 'warning', detail, remedy }
}

export function failing(check: string, detail: string, remedy: string): Finding {
  return { check, level: 'error', detail, remedy }
}

/** Everything that was found wrong, or that all is well where nothing was. */
export function orOk(wrong: readonly (Finding | null)[], fine: Finding): Finding[] {
  const found = wrong.filter((finding) => finding !== null)
  return found.length === 0 ? [fine] : found
}

/** `1 key`, `2 keys`. */
export function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}

/** `3 min`, `2 h`, `5 d`: as exact as anyone needs it. */
export function roughly(ms: number): string {
  const minutes = Math.floor(ms / 60_000)
  if (minutes < 1) return `${Math.floor(ms / 1_000)} s`
  if (minutes < 120) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} d`
}
