import { afterAll, vi } from 'vitest'

// A process runs one file after the other, so what one file replaces is restored for the next.
afterAll(() => {
  vi.restoreAllMocks()
  vi.unstubAllEnvs()
  vi.unstubAllGlobals()
  vi.useRealTimers()
})
