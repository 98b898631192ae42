import { safeText } from '../safe-text.js'
import { KitError } from '../kit-error.js'
import { CHILD_STDERR_LINES, MAX_SHOWN_TEXT } from '../limits.js'
import type { CheckedChild } from './child-options.js'

/** Returns an error about a child that could not do what it was started for, with what it printed, and what to do. */
export function childError(child: CheckedChild, why: string, stderr = ''): KitError {
  const { module, execArgv } = child
  const printed = lastLines(stderr)
  return new KitError(
    'PAWL_KIT_CHILD',
    [
      `A child process cannot run ${safeText(module, MAX_SHOWN_TEXT)}: ${why}`,
      ...(printed.length === 0 ? [] : ['It printed:', ...printed.map((line) => `  ${line}`)]),
      `To see it alone: node ${[...execArgv, pathOf(module)].join(' ')}`,
      ...(/ERR_UNKNOWN_FILE_EXTENSION/.test(stderr)
        ? ["Node needs a loader for that file: pass child.execArgv to crashKit, such as ['--import', 'tsx']."]
        : []),
    ].join('\n'),
  )
}

/** Returns the end of what a child printed, safe for a terminal. */
export function lastLines(stderr: string): string[] {
  return stderr
    .trimEnd()
    .split(/\r?\n/)
    .slice(-CHILD_STDERR_LINES)
    .filter((line, at) => line.trim() !== '' || at > 0)
    .map((line) => safeText(line, MAX_SHOWN_TEXT))
}

function pathOf(module: string): string {
  return module.startsWith('file:') ? decodeURIComponent(new URL(module).pathname) : `'${module}'`
}
