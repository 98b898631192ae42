export { run } from './run.js'
export type { Output, Surroundings } from './run.js'
export type { ExitCode } from './exit-code.js'
