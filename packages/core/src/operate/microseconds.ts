/** A moment as the storage takes it where it has to be exact. */
export function microseconds(moment: Date): string {
  return `${moment.getTime()}000`
}
