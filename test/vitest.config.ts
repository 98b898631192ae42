import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { configDefaults, defineConfig } from 'vitest/config'
import { brokenEngines } from './broken-engines/broken-engine-plugin.js'
import { SlowFirst } from './slow-first.js'
import { amountOf, IS_DEEP } from './support/amounts.js'

const source = (path: string) => fileURLToPath(new URL(`../packages/${path}`, import.meta.url))

const ALL = ['**/*.test.ts', '../examples/*/test/**/*.test.ts']

/** Files that only deep runs include. */
const DEEP_ONLY = '**/*.deep.test.ts'

/** What `npm run test:deep` runs: these, and every file that does more there, as `support/amounts.ts` says. */
const DEEP = [
  DEEP_ONLY,
  ...testFilesWith('support/amounts.js'),
  'property/**/*.test.ts',
  'wire/*.test.ts',
  '../examples/*/test/**/*.test.ts',
]

function testFilesWith(text: string): string[] {
  const folder = fileURLToPath(new URL('.', import.meta.url))
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.test.ts') && !name.includes('node_modules'))
    .filter((name) => readFileSync(join(folder, name), 'utf8').includes(text))
}

/** These files replace our modules, or load other copies of them, which no other file may get. */
const ALONE_AND_DEEP = [
  'broken-engines/*.test.ts',
  'property/hostile-cache.test.ts',
  'wire/broken-engines.deep.test.ts',
]
const ALONE = [
  ...ALONE_AND_DEEP,
  // It counts the subscriptions of its process.
  'calls/strict-mode.test.ts',
  // They count the timers of their process.
  'console/live-flow.test.ts',
  'http/{respond-async-wait,shared-waiting,waiting}.test.ts',
  // In a process that has run for long, code is optimized, and what it allocates is noted of other functions.
  'opentelemetry/allocations.test.ts',
  'storage/every-statement.test.ts',
  'unit/announce.test.ts',
]

/** What runs only where `CITUS_URL` names a coordinator with workers. */
const CITUS = 'citus/*.test.ts'

/**
 * With `PAWL_GUARDS=on`, on engines with all guard rails on: crashes, random pipelines and faults of the wire. Everybody runs a few of
 * them, deep runs all.
 */
const GUARDED = IS_DEEP
  ? ['crash-kit/**/*.test.ts', 'property/**/*.test.ts', 'wire/*.test.ts']
  : ['crash-kit/ride.test.ts', 'property/{shipped,survival,tenants}.test.ts']
const GUARDED_ALONE = IS_DEEP ? ALONE_AND_DEEP : []

/**
 * These have guard rails of their own, or none: they are about the kit's own parts, or start processes, which get no functions of the
 * engine's options.
 */
const SAME_WITH_GUARDS = [
  'broken-engines/{guard-engines.deep,scenarios,variants}.test.ts',
  'crash-kit/{database,finding,guarded,lint,oracle,plan,process,provider,sealed}*.test.ts',
  'property/{engine-db,fingerprint,http-key,provider-key,suspicions}.test.ts',
  'property/{pipelines,support}/*.test.ts',
  'wire/protocol-proxy.test.ts',
]

/** They repeat what is run without guard rails, so they do so less often. */
const guards = {
  PAWL_GUARDS: 'on',
  ...fewer('PAWL_RUNS', IS_DEEP ? 40 : 8),
  ...(IS_DEEP && {
    ...fewer('PAWL_RACES', 6),
    ...fewer('PAWL_WIRE_ALL', 0),
    ...fewer('PAWL_WIRE_CASES', 20),
    ...fewer('PAWL_WIRE_RACES', 10),
    ...fewer('PAWL_SOAK_FAULTS', 200),
  }),
}

/** Unless somebody asks for another amount. */
function fewer(variable: string, amount: number): Record<string, string> {
  return { [variable]: process.env[variable] ?? String(amount) }
}

/** All of it is guarded already. */
const ARE_ALL_GUARDED = process.env['PAWL_GUARDS'] === 'on'

/** The example takes these from the environment, as it would in a repository of its own. */
const env = {
  ...(IS_DEEP ? {} : { RIDES_FAULTS: 'crash,lostCommitAck,providerTimeout' }),
  RIDES_DEPTH: String(amountOf('exampleDepth')),
  RIDES_RACES: String(amountOf('exampleRaces')),
  ...(process.env['PAWL_LAYOUT'] && { LAYOUT: process.env['PAWL_LAYOUT'] }),
}

const shared = {
  plugins: [brokenEngines()],
  resolve: {
    // Tests read the sources, so that watch mode needs no build and a stack trace points at a line of TypeScript.
    alias: [
      { find: /^@pawl\/core$/, replacement: source('core/src/index.ts') },
      { find: /^@pawl\/core\/internal$/, replacement: source('core/src/internal.ts') },
      { find: /^@pawl\/cli$/, replacement: source('cli/src/index.ts') },
      { find: /^@pawl\/console$/, replacement: source('console/src/index.ts') },
      { find: /^@pawl\/fastify$/, replacement: source('fastify-adapter/src/index.ts') },
      { find: /^@pawl\/crash-kit$/, replacement: source('crash-kit/src/index.ts') },
      { find: /^@pawl\/graphile-worker$/, replacement: source('graphile-worker/src/index.ts') },
      { find: /^@pawl\/redis$/, replacement: source('redis/src/index.ts') },
      { find: /^@pawl\/opentelemetry$/, replacement: source('opentelemetry/src/index.ts') },
    ],
  },
}

const sharedTest = {
  pool: 'forks' as const,
  // A slow machine, a restart of the database, a property with a hundred runs: far above what a test needs.
  testTimeout: 90_000,
  hookTimeout: 90_000,
  setupFiles: ['./restore-process.ts'],
  env,
}

const include = IS_DEEP ? DEEP : ALL

export default defineConfig({
  test: {
    globalSetup: ['./global-setup.ts'],
    sequence: { sequencer: SlowFirst },
    // Two more than the cores of a small machine: some files wait for leases, or for processes to start, all the time.
    maxWorkers: 4,
    projects: [
      {
        ...shared,
        // Loading our sources takes longer than most files do, so a worker does so once, and not once per file.
        test: {
          ...sharedTest,
          name: 'all',
          isolate: false,
          include,
          exclude: [...configDefaults.exclude, ...ALONE, CITUS, ...(IS_DEEP ? [] : [DEEP_ONLY])],
        },
      },
      {
        ...shared,
        // They share one cluster, and some of them take a server of it away.
        test: { ...sharedTest, name: 'citus', include: IS_DEEP ? [] : [CITUS], fileParallelism: false },
      },
      {
        ...shared,
        test: {
          ...sharedTest,
          name: 'alone',
          include: IS_DEEP ? ALONE_AND_DEEP : ALONE,
          exclude: [...configDefaults.exclude, ...(IS_DEEP ? [] : [DEEP_ONLY])],
        },
      },
      {
        ...shared,
        test: {
          ...sharedTest,
          name: 'guarded',
          isolate: false,
          env: { ...env, ...guards },
          include: ARE_ALL_GUARDED ? [] : GUARDED,
          exclude: [
            ...configDefaults.exclude,
            ...ALONE,
            ...SAME_WITH_GUARDS,
            ...(IS_DEEP ? [] : [DEEP_ONLY]),
          ],
        },
      },
      {
        ...shared,
        test: {
          ...sharedTest,
          name: 'guarded alone',
          env: { ...env, ...guards },
          include: ARE_ALL_GUARDED ? [] : GUARDED_ALONE,
          exclude: [...configDefaults.exclude, ...SAME_WITH_GUARDS],
        },
      },
    ],
  },
})
