/** The counts of a round that finds nothing to delete. */
export const NOTHING = { deleted: 0, held: 0, effectsDeleted: 0, usageDeleted: 0, duplicatesDeleted: 0 }
