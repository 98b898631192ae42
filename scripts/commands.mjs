import { checkAdvisories } from './advisories.mjs'
import { checkPackages } from './check-packages.mjs'
import { install } from './install.mjs'
import { checkLicences } from './licences.mjs'
import { withLock } from './lock.mjs'
import { sbom } from './sbom.mjs'
import { bin, pnpm, run, step, StepFailed, tellOnStderr, together } from './step.mjs'
import { runTests } from './run-tests.mjs'

/** @type {Record<string, (args: string[]) => Promise<unknown>>} */
const commands = {
  /** With arguments for vitest, runs only what they select; without, everything that CI runs. */
  async test(args) {
    await prepare()
    if (args.length === 0) await checks()
    const counts = await step('test', () => runTests(args))
    console.log(counts)
  },

  /** Repeats more of everything that is repeated: random cases, races, faults. `test/support/amounts.ts` says how much. */
  async 'test-deep'(args) {
    await prepare()
    const counts = await step('test, deep', () => runTests(args, { PAWL_DEEP: '1' }))
    console.log(counts)
  },

  async watch(args) {
    await prepare()
    await run(bin('vitest', 'test'), args, { cwd: 'test' })
  },

  /** The demo; see `examples/rides/README.md` for its arguments. */
  async rides(args) {
    if (args.includes('--json')) tellOnStderr()
    await prepare()
    await run(process.execPath, ['examples/rides/dist/demo/main.js', ...args], { stdout: process.stdout })
  },

  /** The demo's service alone, ready for curl. */
  async 'rides-server'(args) {
    await prepare()
    await run(process.execPath, ['examples/rides/dist/demo/serve.js', ...args])
  },

  /** Pawl against what people would use instead; see `bench/README.md` for its arguments. */
  async bench(args) {
    if (args.includes('--json')) tellOnStderr()
    await prepare()
    await run(process.execPath, ['bench/dist/main.js', ...args], { stdout: process.stdout })
  },

  async check() {
    await prepare()
    await checks()
    // Only here: the tests of somebody without a network, or with a slow one, should not wait for a registry.
    await step('advisories', checkAdvisories)
  },

  /** The software bill of materials, as CycloneDX JSON on standard output. */
  async sbom() {
    tellOnStderr()
    await withLock(install)
    process.stdout.write(await sbom())
  },

  build: prepare,

  async format() {
    await withLock(install)
    await step('format', () => run(bin('oxfmt'), ['.']))
  },

  /** The pinned pnpm, for `npm run pnpm -- add …`. */
  pnpm: (args) => pnpm(args),
}

async function prepare() {
  // Two runs in one checkout would write the same files here; after this, they only read.
  await withLock(async () => {
    await install()
    await step('build', async () => {
      await run(bin('tsc'), ['--build'])
      // Not at the top: esbuild is there only once everything is installed.
      const { buildConsole } = await import('./build-console.mjs')
      await buildConsole()
    })
  })
}

async function checks() {
  await step('lint', () => run(bin('oxlint'), ['--type-aware', '--deny-warnings']))
  await step('format check', () => run(bin('oxfmt'), ['--check', '.']))
  await step('licences', checkLicences)
  // Side by side: unlike the linter, neither of them can use a second core.
  await together([step('unused code', () => run(bin('knip'), [])), step('packages', checkPackages)])
}

/** @param {string[]} argv */
export async function main([name = '', ...args]) {
  const command = commands[name]
  if (command === undefined) {
    console.error(`Unknown command "${name}"; the commands are ${Object.keys(commands).join(', ')}.`)
    process.exitCode = 1
    return
  }
  try {
    await command(args)
  } catch (error) {
    if (!(error instanceof StepFailed)) throw error
    console.error(error.message)
    if (error.lastLine !== undefined) console.log(error.lastLine)
    process.exitCode = 1
  }
}
