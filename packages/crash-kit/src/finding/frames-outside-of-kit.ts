import { fileURLToPath } from 'node:url'
import { MAX_STACK_FRAMES, MAX_STACK_LINES } from '../limits.js'

/** The folder of this package's code: its `src`, or its `dist`. */
const KIT = new URL('..', import.meta.url)
const KIT_PLACES = [KIT.href, fileURLToPath(KIT)]

/** Returns the lines of the current stack that show which test it is, without those of the kit, of Node and of packages. */
export function framesOutsideOfKit(): string[] {
  return currentFrames().filter(isOutside).slice(0, MAX_STACK_LINES)
}

function currentFrames(): string[] {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = MAX_STACK_FRAMES
  try {
    return (new Error('for its stack').stack ?? '').split('\n').filter((line) => /^\s+at /.test(line))
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}

function isOutside(frame: string): boolean {
  if (KIT_PLACES.some((place) => frame.includes(place))) return false
  // Promise.all and the like do not name a file.
  return !/[\\/]node_modules[\\/]|\bnode:|<anonymous>|\(index \d+\)/.test(frame)
}
