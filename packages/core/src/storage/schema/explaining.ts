import { isMissingRight, missingRight, type Place, type Worker } from './missing-right.js'
import { isNotMigrated, notMigrated } from './not-migrated.js'

/** Runs work on the tables. Where they are missing, or may not be used, the error says what to do. */
export async function explaining<T>(
  place: Place,
  work: () => Promise<T>,
  worker: Worker = 'application',
): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw await explained(place, error, worker)
  }
}

/** The same for an error that was caught: returns another one in its place, or the error itself. */
export async function explained(
  place: Place,
  error: unknown,
  worker: Worker = 'application',
): Promise<unknown> {
  if (isNotMigrated(error)) return notMigrated(place.tables, error)
  return isMissingRight(error) ? missingRight(place, error, worker) : error
}
