import { EXIT } from './exit-code.js'
import { run, wantsJson } from './run.js'
import { tellError } from './tell-error.js'

const { stdout, stderr, env } = process
const argv = process.argv.slice(2)

type Written = NodeJS.ErrnoException | null | undefined
const writes: Promise<Written>[] = []

/** The standard output; it keeps the end of each write. */
const output = {
  isTTY: stdout.isTTY,
  write(text: string): void {
    const written = new Promise<Written>((resolve) => stdout.write(text, (error) => resolve(error)))
    // Early versions of Node 20 throw at once what later ones pass to the callback.
    writes.push(written.catch((error: NodeJS.ErrnoException) => error))
  },
}
// Failed writes are handled below; and when errors cannot be reported, there is nobody left to report that to.
for (const stream of [stdout, stderr]) stream.on('error', () => {})

/** Ctrl-C ends the process as always, until a command that stays asks to be told. */
const untilStopped = () =>
  new Promise<void>((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => resolve())
  })

const exit = await run(argv, { stdout: output, stderr, env, cwd: process.cwd(), untilStopped })
const failure = (await Promise.all(writes)).find((error) => error != null)
// The reader of a pipe may leave early, as `head` does: that is not our error.
const isLost = failure != null && failure.code !== 'EPIPE'
if (isLost) {
  const message = `Cannot write to standard output: ${failure.message}`
  const isJson = wantsJson(argv)
  tellError({ code: 'failed', message }, { stderr, env, databaseUrl: env['DATABASE_URL'], isJson })
}
// The user's modules may keep the process alive, with a pool for example. What was written has to get out first.
await new Promise((resolve) => stderr.write('', resolve))
process.exit(isLost ? EXIT.failed : failure == null ? exit : EXIT.ok)
