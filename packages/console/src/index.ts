export {
  fastifyPawlConsole as default,
  fastifyPawlConsole,
  fastifyPawlConsole as consolePlugin,
} from './console-plugin.js'
export type { ConsoleOptions } from './console-options.js'
export { startConsole } from './start-console.js'
export type { RunningConsole, StartConsoleOptions } from './start-console.js'
export type { Authenticate, ConsoleUser } from './user.js'
