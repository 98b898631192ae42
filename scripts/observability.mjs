// Writes what is made from the tables of metrics and alerts of @pawl/opentelemetry: alert rules and dashboards to load, and the
// tables of docs/observability.md.
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { bin, ROOT, run } from './step.mjs'

const PACKAGE = join(ROOT, 'packages/opentelemetry')
const PAGE = join(ROOT, 'docs/observability.md')

await run(bin('tsc'), ['--build', PACKAGE])
/** @type {{ readyFiles: () => Record<string, string>, withTables: (page: string) => string }} */
const { readyFiles, withTables } = await import(
  pathToFileURL(join(PACKAGE, 'dist/ready/ready-files.js')).href
)
for (const [name, text] of Object.entries(readyFiles())) {
  await mkdir(dirname(join(PACKAGE, name)), { recursive: true })
  await writeFile(join(PACKAGE, name), text)
}
await writeFile(PAGE, withTables(await readFile(PAGE, 'utf8')))
