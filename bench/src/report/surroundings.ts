import { readFile } from 'node:fs/promises'
import { cpus, release, totalmem, type } from 'node:os'
import { POOL_SIZE, TEXT_WIDTH } from '../limits.js'
import type { BenchDatabase } from '../run/database.js'
import { wrapText } from './wrap-text.js'

/** Where the figures come from. */
export interface Surroundings {
  readonly machine: {
    readonly cpu: string
    readonly cores: number
    readonly memoryGiB: number
    readonly system: string
  }
  readonly versions: Readonly<Record<string, string>>
  readonly server: { readonly kind: string; readonly settings: Readonly<Record<string, string>> }
  readonly poolSize: number
  /** What makes the figures doubtful. */
  readonly warnings: readonly string[]
}

const PACKAGES = [
  'pg',
  'kysely',
  'fastify',
  '@dbos-inc/dbos-sdk',
  'openworkflow',
  '@restatedev/restate-sdk',
  '@restatedev/restate-server',
  'absurd-sdk',
] as const
const DURABLE = ['fsync', 'synchronous_commit', 'full_page_writes'] as const
const GIB = 1024 ** 3

export async function describeSurroundings({
  kind,
  version,
  settings,
}: BenchDatabase): Promise<Surroundings> {
  const cores = cpus()
  const versions: Record<string, string> = { node: process.versions.node, postgresql: version }
  for (const name of PACKAGES) versions[name] = await versionOf(name)
  return {
    machine: {
      cpu: cores[0]?.model.trim() ?? 'unknown',
      cores: cores.length,
      memoryGiB: Math.round(totalmem() / GIB),
      system: `${type()} ${release()}`,
    },
    versions,
    server: { kind, settings },
    poolSize: POOL_SIZE,
    warnings: DURABLE.filter((name) => settings[name] === 'off').map(
      (name) => `${name} is off: commits cost less here than in production.`,
    ),
  }
}

export function surroundingsText({ machine, versions, server, poolSize, warnings }: Surroundings): string {
  return [
    `${machine.cores} cores (${machine.cpu}), ${machine.memoryGiB} GiB, ${machine.system}`,
    list(versions),
    `PostgreSQL is ${server.kind === 'embedded' ? 'embedded, on this machine' : 'the one of DATABASE_URL'}: ${list(server.settings)}`,
    `Every contender has ${poolSize} connections; those that keep tables of their own have as many for these.`,
    ...warnings.map((warning) => `WARNING: ${warning}`),
  ]
    .map((line) => wrapText(line, TEXT_WIDTH))
    .join('\n')
}

const list = (values: Readonly<Record<string, string>>): string =>
  Object.entries(values)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ')

/** Versions of what is installed here; direct dependencies are in the package's own folder. */
async function versionOf(name: string): Promise<string> {
  const file = new URL(`../../node_modules/${name}/package.json`, import.meta.url)
  const { version } = JSON.parse(await readFile(file, 'utf8')) as { version: string }
  return version
}
