// Writes docs/statements.md: every SQL statement of core, as its file writes it. `--print` prints the page instead, from what was
// built last.
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { register } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { bin, ROOT, run } from './step.mjs'
import { tidySql } from './tidy-sql.mjs'

const PAGE = join(ROOT, 'docs/statements.md')
const SOURCES = join(ROOT, 'packages/core/src/storage')
const BUILT = pathToFileURL(join(ROOT, 'packages/core/dist/storage')).href

/** Folders of `storage`, in the order of the page, and what their statements are about. */
const FOLDERS = new Map([
  ['keys', 'idempotency_keys'],
  ['jobs', 'staged_jobs'],
  ['effects', 'effects'],
  ['interventions', 'interventions'],
  ['usage', 'scope_usage'],
  ['pipelines', 'pipelines'],
  ['duplicates', 'duplicates'],
  ['schema', 'The server and the schema'],
])

const HEAD = `# Every statement

The SQL that Pawl sends, as its files write it, for the schema \`pawl\`: fragments that several statements share are written out. What is
really sent says the same, but names the schema of every function, operator and type (\`storage/qualified.ts\`), so that nothing on the
search path can take part in it. [state-machine.md](state-machine.md#who-may-write) says when each write of a key is sent, and under
which condition it applies; [internals.md](internals.md#how-a-statement-is-sent) says how.

On [Citus](citus.md), statements about rows of several scopes also say that those are in one shard (\`k.scope = ANY ($1::text[])\`),
and the servers of the cluster count as one. Where a text cannot be executed there, a second one follows it.

Made by \`node scripts/statements.mjs\`; a test compares.
`

/** @typedef {{ name: string, file: string, sql: string, distributed: string | null, does: string }} Statement */

/**
 * The statements of all files. While they are loaded, `defineStatement` is replaced by one that records what it is given: the
 * texts are not exported.
 *
 * @returns {Promise<{ name: string, file: string, sql: string, distributed: string | null }[]>}
 */
async function recordStatements() {
  /** @typedef {(tables: unknown) => string} Write */
  /** @type {{ name: string, file: string, write: Write, overServers: Write | undefined }[]} */
  const recorded = []
  Object.assign(globalThis, {
    recordStatement(
      /** @type {string} */ name,
      /** @type {Write} */ write,
      /** @type {Write | undefined} */ overServers,
    ) {
      // The third line says who called `defineStatement`, after the error's message, this function and that one.
      const [, , , caller = ''] = new Error('who defines it?').stack?.split('\n') ?? []
      const [, file = ''] = /\/dist\/storage\/(.*)\.js:/.exec(caller) ?? []
      recorded.push({ name, file, write, overServers })
    },
  })
  const real = `${BUILT}/statement.js`
  const recorder = dataUrl(`export * from ${JSON.stringify(real)}
    export const defineStatement = (...defining) => globalThis.recordStatement(...defining)`)
  register(
    dataUrl(`export async function resolve(specifier, context, next) {
      const resolved = await next(specifier, context)
      const isReplaced = resolved.url === ${JSON.stringify(real)} && !context.parentURL.startsWith('data:')
      return isReplaced ? { ...resolved, url: ${JSON.stringify(recorder)}, format: 'module' } : resolved
    }`),
  )
  for (const { folder, name } of await sourceFiles()) await import(`${BUILT}/${folder}/${name}.js`)
  const { tablesIn } = await import(`${BUILT}/tables.js`)
  const tables = tablesIn('pawl', 'statements')
  const distributed = tablesIn('pawl', 'statements')
  distributed.spread.learn('over_servers')
  return recorded.map(({ name, file, write, overServers }) => ({
    name,
    file,
    sql: tidySql(write(tables)),
    distributed: overServers === undefined ? null : tidySql(overServers(distributed)),
  }))
}

/** @param {string} source */
function dataUrl(source) {
  return `data:text/javascript,${encodeURIComponent(source)}`
}

async function sourceFiles() {
  const found = []
  for (const folder of FOLDERS.keys()) {
    const names = (await readdir(join(SOURCES, folder))).filter((name) => name.endsWith('.ts')).toSorted()
    found.push(...names.map((name) => ({ folder, name: name.slice(0, -'.ts'.length) })))
  }
  return found
}

/**
 * What each statement of a file does, in their order: the first sentence above the exported function that sends it, or above
 * the statement itself where that function sends several.
 *
 * @param {string} source
 */
function whatTheyDo(source) {
  const blocks = source.split(/\n{2,}(?=\S)/)
  const senders = blocks.filter((block) => /^export (?:async )?function /m.test(block))
  return blocks.flatMap((block) => {
    const definitions = [...block.matchAll(/[=:] defineStatement\(/g)]
    const [, variable = ''] = /^const (\w+)/m.exec(block) ?? []
    const sender = senders.find((each) => new RegExp(`\\b${variable}\\b`).test(each))
    const sendsSeveral = [...(sender ?? '').matchAll(/\b(\w+Statement)\b/g)].some(
      ([, other]) => other !== variable,
    )
    const does = (sendsSeveral ? firstSentence(block) : null) ?? firstSentence(sender ?? '')
    return definitions.map(() => does)
  })
}

/** Of the comment at the beginning of a block. @param {string} block */
function firstSentence(block) {
  const [, comment = ''] = /^\/\*\*(.*?)\*\//s.exec(block) ?? []
  const text = comment.replaceAll(/\s*\n \* ?/g, ' ').trim()
  return /^.*?[.](?=\s|$)/s.exec(text)?.[0] ?? null
}

/** @returns {Promise<Statement[]>} */
async function readStatements() {
  const recorded = await recordStatements()
  const statements = []
  for (const file of new Set(recorded.map((each) => each.file))) {
    const ofFile = recorded.filter((each) => each.file === file)
    const does = whatTheyDo(await readFile(join(SOURCES, `${file}.ts`), 'utf8'))
    if (does.length !== ofFile.length)
      throw new Error(
        `${file}.ts: ${does.length} statements are written there, and ${ofFile.length} are defined.`,
      )
    for (const [index, statement] of ofFile.entries()) {
      const sentence = does[index]
      if (sentence == null)
        throw new Error(
          `${file}.ts: no comment says what ${statement.name} does. Write one above the function that sends it.`,
        )
      statements.push({ ...statement, does: sentence })
    }
  }
  return statements
}

/** @param {Statement[]} statements */
function pageOf(statements) {
  const parts = [HEAD]
  for (const [folder, table] of FOLDERS) {
    parts.push(`## ${table}\n`)
    const ofFolder = statements.filter(({ file }) => file.startsWith(`${folder}/`))
    for (const name of [...new Set(ofFolder.map((each) => each.name))].toSorted()) {
      const same = ofFolder.filter((each) => each.name === name)
      const files = [...new Set(same.map(({ file }) => `storage/${file}.ts`))]
      parts.push(`### ${name}\n`)
      parts.push(`${files.map((file) => `[${file}](../packages/core/src/${file})`).join(', ')}\n`)
      for (const { does, sql, distributed } of same) {
        parts.push(`${does}\n\n\`\`\`sql\n${sql}\n\`\`\`\n`)
        if (distributed !== null)
          parts.push(`Where the tables are distributed:\n\n\`\`\`sql\n${distributed}\n\`\`\`\n`)
      }
    }
  }
  return parts.join('\n')
}

const isPrinted = process.argv[2] === '--print'
if (!isPrinted) await run(bin('tsc'), ['--build', 'packages/core'])
const page = pageOf(await readStatements())
if (isPrinted) process.stdout.write(page)
else await writeFile(PAGE, page)
