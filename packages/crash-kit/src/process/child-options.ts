import { isAbsolute } from 'node:path'
import { pathToFileURL } from 'node:url'
import { checkKnownOptions, invalidOption, type OptionOwner } from '@pawl/core/internal'

/**
 * How a child process gets the pipeline.
 *
 * @example
 * child: { module: new URL('./ride-child.mjs', import.meta.url) }
 *
 * @example
 * // ride-child.ts: export default ({ provider }: ChildContext) => createRideWith(provider)
 * child: { module: new URL('./ride-child.ts', import.meta.url), execArgv: ['--import', 'tsx'] }
 */
export interface ChildOptions {
  /**
   * A module that Node can import. Its default export is the pipeline, or a function that returns it. If options of the pool or of
   * the engine are functions, which cannot be sent to another process, it exports them as `pool` and `engine`.
   */
  readonly module: URL | string
  /** Node's options for the process, such as a loader. Default: none. */
  readonly execArgv?: readonly string[]
}

/** The same, checked. */
export interface CheckedChild {
  /** The module's URL. */
  readonly module: string
  readonly execArgv: readonly string[]
}

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'crashKit: child' }

export function checkChildOptions(options: ChildOptions): CheckedChild {
  checkKnownOptions(OWNER, options, ['module', 'execArgv'])
  const { module, execArgv = [] } = options
  if (!Array.isArray(execArgv) || !execArgv.every((each) => typeof each === 'string'))
    throw invalidOption(OWNER, 'execArgv', execArgv, "a list of options of Node, such as ['--import', 'tsx']")
  return { module: addressOf(module), execArgv }
}

/** Not by `instanceof URL`, since environments for browsers bring their own URL class. */
function addressOf(module: unknown): string {
  const text = typeof module === 'string' ? module : (module as Partial<URL> | null | undefined)?.href
  if (typeof text === 'string') {
    if (isAbsolute(text)) return pathToFileURL(text).href
    if (/^(file|data):/.test(text)) return text
  }
  throw invalidOption(
    OWNER,
    'module',
    module,
    "the URL or the absolute path of a module, such as new URL('./child.mjs', import.meta.url)",
  )
}
