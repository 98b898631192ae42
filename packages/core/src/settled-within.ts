/** Waits for all of them to end, but no longer than `timeoutMs`. Returns false when some have not ended. */
export async function settledWithin(
  timeoutMs: number,
  work: ReadonlySet<Promise<unknown>>,
): Promise<boolean> {
  if (work.size === 0) return true
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), timeoutMs)
  })
  const ended = Promise.allSettled(work).then(() => true)
  try {
    return await Promise.race([ended, timeout])
  } finally {
    clearTimeout(timer)
  }
}
