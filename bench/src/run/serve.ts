import { readSync } from 'node:fs'
import { FREEZE, type Reply, type Request } from './messages.js'

export type Handlers<Commands extends Record<string, { readonly asks: unknown; readonly gives: unknown }>> = {
  readonly [Name in keyof Commands]: (
    argument: Commands[Name]['asks'],
  ) => Promise<Commands[Name]['gives']> | Commands[Name]['gives']
}

/** What has to stand still together with the process. */
interface AroundFreeze {
  readonly before: () => void
  readonly after: () => void
}

/** Answers what the bench asks of this process, until the bench ends. */
export function serve<Commands extends Record<string, { readonly asks: unknown; readonly gives: unknown }>>(
  handlers: Handlers<Commands>,
  aroundFreeze: AroundFreeze = { before: () => {}, after: () => {} },
): void {
  process.on('message', (message) => void answer(message as Request))
  process.on('disconnect', () => process.exit())
  // Ctrl-C reaches the whole group; the bench says when it is over.
  process.on('SIGINT', () => {})

  async function answer({ id, name, argument }: Request): Promise<void> {
    if (name === FREEZE) return freeze(id, aroundFreeze)
    try {
      const handler = handlers[name]
      if (handler === undefined) throw new TypeError(`there is no command '${name}'`)
      send({ id, value: await handler(argument) })
    } catch (error) {
      send({ id, error: error instanceof Error ? (error.stack ?? error.message) : String(error) })
    }
  }
}

const STANDARD_INPUT = 0

/**
 * Blocks the whole process, as a signal would, but ends with the bench: a pipe that is closed can be read, too. Some
 * libraries poll their database all the time, and would take CPU from whoever is being measured.
 */
function freeze(id: number, { before, after }: AroundFreeze): void {
  process.send?.({ id, value: null } satisfies Reply, () => {
    before()
    readSync(STANDARD_INPUT, Buffer.alloc(1))
    after()
  })
}

function send(reply: Reply): void {
  if (process.connected) process.send?.(reply)
}
