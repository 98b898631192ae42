import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

const require = createRequire(import.meta.url)

/** What an operator sees of a key: the command, and what it prints. */
export async function pawlShow(databaseUrl: string, scope: string, key: string): Promise<[string, string[]]> {
  const args = ['show', scope, key]
  const { stdout } = await promisify(execFile)(process.execPath, [await findPawl(), ...args], {
    env: { PATH: process.env['PATH'] ?? '', DATABASE_URL: databaseUrl },
  })
  return [['pawl', ...args].join(' '), stdout.trimEnd().split('\n')]
}

/** The program that `@pawl/cli` installs. We start it by its file, because not every shell can run what npm links. */
async function findPawl(): Promise<string> {
  const root = dirname(dirname(require.resolve('@pawl/cli')))
  const { bin } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as {
    readonly bin: { readonly pawl: string }
  }
  return join(root, bin.pawl)
}
