import { spawn } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Opens an address in the person's browser, if there is one. The address is a secret, and everybody on the machine sees the arguments of
 * a process: so the browser opens a file that only its owner can read, which leads to the address. Returns what removes that file.
 */
export function openInBrowser(
  address: string,
  env: Readonly<Record<string, string | undefined>>,
): () => Promise<void> {
  const opener = openerOf(env)
  if (opener === null) return async () => {}
  // Such a folder can be entered only by its owner.
  const folder = mkdtempSync(join(tmpdir(), 'pawl-console-'))
  const file = join(folder, 'open.html')
  writeFileSync(file, `<!doctype html><meta http-equiv="refresh" content="0;url=${address}">`, {
    mode: 0o600,
  })
  const [command, ...args] = opener
  const child = spawn(command, [...args, file], { detached: true, stdio: 'ignore' })
  // The address is printed in any case.
  child.on('error', () => {})
  child.unref()
  return () => rm(folder, { recursive: true, force: true })
}

function openerOf(
  env: Readonly<Record<string, string | undefined>>,
): readonly [command: string, ...args: string[]] | null {
  if (process.platform === 'darwin') return ['open']
  if (process.platform === 'win32') return ['cmd', '/c', 'start', '""']
  return env['DISPLAY'] || env['WAYLAND_DISPLAY'] ? ['xdg-open'] : null
}
