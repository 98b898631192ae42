const MINUTE_MS = 60_000

/** As `<input type="datetime-local">` has it, in the reader's zone: `2026-11-16T14:03`. */
export function toLocalInput(at: Date): string {
  const shifted = new Date(at.getTime() - at.getTimezoneOffset() * MINUTE_MS)
  return shifted.toISOString().slice(0, 16)
}

/** Null where nothing, or no moment, was entered. */
export function fromLocalInput(text: string): Date | null {
  const at = new Date(text)
  return Number.isNaN(at.getTime()) ? null : at
}
