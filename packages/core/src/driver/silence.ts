import { isConnectionLost } from '../errors.js'

/** A connection was given up because the server had not answered in time. */
export class Silence extends Error {
  constructor(deadlineMs: number) {
    super(`PostgreSQL did not answer within ${deadlineMs} ms`)
  }
}

/** Whether a connection is lost for that reason. */
export function isSilence(error: unknown): boolean {
  return isConnectionLost(error) && (error as Error).cause instanceof Silence
}
