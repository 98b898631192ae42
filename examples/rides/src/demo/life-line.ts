import { rmSync } from 'node:fs'

/** The folder that the demo would have removed itself. Only one of its processes gets it. */
const { LIFE_LINE_FOLDER: folder = '' } = process.env

/**
 * Loaded into every process of the demo, so that they end with it, even when it is killed. A process of a real service has no
 * such thing.
 */
process.stdin
  .once('close', () => {
    // Tried again if another process writes into the folder meanwhile.
    if (folder !== '') rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
    process.exit(1)
  })
  .resume()
