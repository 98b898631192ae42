/** What the process ends with. Stable: scripts switch over it. */
export const EXIT = {
  /** Done, and nothing is wrong. */
  ok: 0,
  /** It did not work: the database is away or not migrated, there is no such key, the step was refused. */
  failed: 1,
  /** The command line is wrong. Nothing was tried. */
  usage: 2,
  /** It worked, and there is something to look at. */
  findings: 3,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]
