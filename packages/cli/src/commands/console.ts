import { type Protection, PawlError } from '@pawl/core'
import { actorOf } from '../actor.js'
import { CliError } from '../cli-error.js'
import { type Context, defineCommand, flag, value } from '../command.js'
import { EXIT } from '../exit-code.js'
import { openInBrowser } from '../open-in-browser.js'
import { parseProtectKeys } from '../parse/protect-keys.js'
import { parseText, parseWholeNumber } from '../parse/value.js'
import { safeText } from '../render/safe-text.js'

const MAX_PORT = 65_535

export const consoleCommand = defineCommand({
  name: 'console',
  summary: 'serve a page for the browser: where requests stand, what is stuck and why',
  args: [],
  options: {
    port: value('N', parseWholeNumber(0, MAX_PORT), 'the port on 127.0.0.1; 0 for any; default: 7295'),
    'no-open': flag('only print the address; by default, a terminal also opens the browser'),
    'read-only': flag('nobody can change or reveal anything'),
    actor: value('NAME', parseText, 'who it is, for the record; default: PAWL_ACTOR, else user@host'),
    'read-url': value('URL', parseText, 'a database to read from: a role that may only read, or a replica'),
    'trace-url': value('URL', parseText, 'where a trace is shown, with {traceId} in it'),
  },
  details: [
    'It listens on 127.0.0.1 only. The printed address signs in one browser, once; then the next one is printed. Other users of the machine can reach the port, and nothing else.',
    'It reads on connections that are read-only. Each change asks for a reason, and is recorded with the actor in pawl.interventions. What clients sent and received is hidden until somebody reveals it, which is recorded as well.',
    'It runs until Ctrl-C. To give it to a team, mount it in an application, behind its own sign-in: see docs/console.md.',
  ],
  exits: {},
  async run({ options }, context) {
    const url = context.databaseUrl()
    // A page that says so would be one step later than here.
    await context.withDatabase(({ operator }) => operator.pipelines())
    // Only now: Fastify takes a while to load, and no other command needs it.
    const { startConsole } = await import('@pawl/console')
    const protect = protectionOf(context)
    const files: (() => Promise<void>)[] = []
    let wantsBrowser = context.isTerminal && !options['no-open']
    // From before the address is printed: whoever reads it may want it to end at once.
    const stopped = context.untilStopped()
    const running = await startConsole({
      url,
      schema: context.schema,
      actor: actorOf(options.actor, context.env),
      readOnly: options['read-only'],
      ...(options.port !== undefined && { port: options.port }),
      ...(options['read-url'] !== undefined && { readUrl: options['read-url'] }),
      ...(options['trace-url'] !== undefined && { traceUrl: options['trace-url'] }),
      ...(context.env['PAWL_HASH_SECRET'] && { hashSecret: context.env['PAWL_HASH_SECRET'] }),
      ...(protect !== null && { protect }),
      onAddress(address) {
        context.print(address, { address })
        if (wantsBrowser) files.push(openInBrowser(address, context.env))
        // Only the first: the others are for somebody who wants another browser.
        wantsBrowser = false
      },
      onError: ({ message }) => context.tell(safeText(message)),
    }).catch((error: unknown) => {
      throw explained(error, options.port)
    })
    context.tell('The console runs until Ctrl-C.')
    await stopped
    await Promise.all([running.close(), ...files.map((remove) => remove())])
    return { exit: EXIT.ok, lines: [], json: undefined }
  },
})

function protectionOf({ env }: Context): Protection | null {
  return parseProtectKeys(env['PAWL_PROTECT_KEYS'])
}

function explained(error: unknown, port: number | undefined): unknown {
  if (error instanceof PawlError || (error as NodeJS.ErrnoException).code !== 'EADDRINUSE') return error
  return new CliError(
    'failed',
    `Port ${port ?? 7295} is taken, perhaps by another console. Pass --port with another one, or 0 for any that is free.`,
    { cause: error },
  )
}
