import { run } from './run.js'

const { stdout, stderr, env } = process

// The reader of a pipe may leave early, as `head` does: that is no error of ours.
stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') process.exit()
  throw error
})

const exit = await run(process.argv.slice(2), { stdout, stderr, env, cwd: process.cwd() })
// Modules of the user's may keep the process alive, such as by a pool. What was written has to get out first.
await Promise.all([stdout, stderr].map((stream) => new Promise((resolve) => stream.write('', resolve))))
process.exit(exit)
