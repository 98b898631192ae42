import { afterAll, vi } from 'vitest'

// A process runs one file after the other: what one has replaced is not left to the next.
afterAll(() => {
  vi.restoreAllMocks()
  vi.unstubAllEnvs()
  vi.unstubAllGlobals()
  vi.useRealTimers()
})
