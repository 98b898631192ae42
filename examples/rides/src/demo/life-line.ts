import { rmSync } from 'node:fs'

/** What the demo would have removed itself; one of its processes is told. */
const { LIFE_LINE_FOLDER: folder = '' } = process.env

/**
 * Loaded into every process of the demo: they end with the demo, also when that is killed. A process of a real service has no
 * such thing.
 */
process.stdin
  .once('close', () => {
    // Again if another process writes into it while it goes.
    if (folder !== '') rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
    process.exit(1)
  })
  .resume()
