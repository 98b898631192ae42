import { stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname } from 'node:path'
import type { ServerUser } from './server-user.js'

const OTHERS_MAY_ENTER = 0o001

/** A directory for temporary files that the server's user can reach; root's own TMPDIR may be closed to others. */
export async function findTempRoot(user: ServerUser): Promise<string> {
  if (user === null) return tmpdir()
  for (const candidate of [tmpdir(), '/tmp', '/var/tmp']) {
    if (await canOthersEnter(candidate)) return candidate
  }
  throw new Error(
    'PostgreSQL cannot run as root here: no temporary directory is open to other users. Set TMPDIR.',
  )
}

async function canOthersEnter(path: string): Promise<boolean> {
  const { mode } = await stat(path)
  if ((mode & OTHERS_MAY_ENTER) === 0) return false
  const parent = dirname(path)
  return parent === path || canOthersEnter(parent)
}
