import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** The user to run the server as; null means the current one. */
export type ServerUser = { readonly uid: number; readonly gid: number } | null

// Both are on any Debian, Alpine or Fedora; initdb wants a user that the system knows by name.
const CANDIDATES = ['postgres', 'nobody']

/** PostgreSQL refuses to run as root, which is the user in most containers. */
export async function findServerUser(): Promise<ServerUser> {
  if (process.getuid?.() !== 0) return null
  for (const name of CANDIDATES) {
    const user = await lookUp(name)
    if (user !== null) return user
  }
  throw new Error(`PostgreSQL cannot run as root, and there is no user named ${CANDIDATES.join(' or ')}.`)
}

async function lookUp(name: string): Promise<ServerUser> {
  try {
    const [uid, gid] = await Promise.all([run('id', ['-u', name]), run('id', ['-g', name])])
    return { uid: Number(uid.stdout), gid: Number(gid.stdout) }
  } catch {
    return null
  }
}
