import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { brokenEngines } from './broken-engines/broken-engine-plugin.js'

const source = (path: string) => fileURLToPath(new URL(`../packages/${path}`, import.meta.url))

export default defineConfig({
  plugins: [brokenEngines()],
  resolve: {
    // Tests read the sources, so that watch mode needs no build and a stack trace points at a line of TypeScript.
    alias: [
      { find: /^@pawl\/core$/, replacement: source('core/src/index.ts') },
      { find: /^@pawl\/core\/internal$/, replacement: source('core/src/internal.ts') },
      { find: /^@pawl\/cli$/, replacement: source('cli/src/index.ts') },
      { find: /^@pawl\/fastify$/, replacement: source('fastify-adapter/src/index.ts') },
      { find: /^@pawl\/crash-kit$/, replacement: source('crash-kit/src/index.ts') },
      { find: /^@pawl\/graphile-worker$/, replacement: source('graphile-worker/src/index.ts') },
    ],
  },
  test: {
    include: ['**/*.test.ts', '../examples/*/test/**/*.test.ts'],
    globalSetup: ['./global-setup.ts'],
    pool: 'forks',
    // Two more than the cores of a small machine: some files wait for leases, or for processes to start, all the time.
    maxWorkers: 4,
    // A slow machine, a restart of the database, a property with a hundred runs: far above what a test needs.
    testTimeout: 90_000,
    hookTimeout: 90_000,
  },
})
