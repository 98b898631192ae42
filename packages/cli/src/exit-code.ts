/** The exit codes of the process. Stable: scripts switch over them. */
export const EXIT = {
  /** Done, and nothing is wrong. */
  ok: 0,
  /** It did not work: the database is not available or not migrated, there is no such key, the step was refused. */
  failed: 1,
  /** The command line is wrong. Nothing was tried. */
  usage: 2,
  /** It worked, but there is something to look at. */
  findings: 3,
} as const

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]
