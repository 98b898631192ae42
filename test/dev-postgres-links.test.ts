import { mkdir, mkdtemp, readlink, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import { linkLibraries } from '../packages/dev-postgres/src/link-libraries.js'

let native: string

beforeEach(async () => {
  native = await mkdtemp(join(tmpdir(), 'pawl-native-'))
  await mkdir(join(native, 'lib'))
  return () => rm(native, { recursive: true, force: true })
})

const list = (links: unknown): Promise<void> =>
  writeFile(join(native, 'pg-symlinks.json'), JSON.stringify(links))

test('makes the links that the install script would have made, and leaves those that are there', async () => {
  await list([
    { source: 'native/lib/libpq.so.5.18', target: 'native/lib/libpq.so' },
    { source: 'native/lib/libicu.so.60.2', target: 'native/lib/libicu.so' },
  ])
  await symlink('elsewhere', join(native, 'lib/libicu.so'))
  await linkLibraries(native)
  expect(await readlink(join(native, 'lib/libpq.so'))).toBe('libpq.so.5.18')
  expect(await readlink(join(native, 'lib/libicu.so'))).toBe('elsewhere')
  await linkLibraries(native)
})

test('makes no links where the binaries have no list of them', async () => {
  await linkLibraries(native)
})

test('says which link it could not make, and what to do', async () => {
  await list([{ source: 'native/lib/a.so.1', target: 'native/nowhere/a.so' }])
  await expect(linkLibraries(native)).rejects.toThrow(/nowhere\/a\.so.*install scripts/)
})
