import type { Finding } from '@pawl/core'
import { defineCommand, value } from '../command.js'
import { EXIT } from '../exit-code.js'
import { loadModule, pipelinesOf } from '../load-module.js'
import { parseText } from '../parse/value.js'
import { renderFindings } from '../render/findings.js'
import { schemaOption } from '../schema-option.js'

export const doctorCommand = defineCommand({
  name: 'doctor',
  summary: 'check for common problems',
  args: [],
  options: {
    pipelines: value(
      'MODULE',
      parseText,
      'the pipelines that the application registers, as for pawl diagram',
    ),
  },
  details: ['With --pipelines it also reports keys in flight that none of your engines can run.'],
  exits: {
    [EXIT.failed]: 'it could not check: the database is not available, or the tables are of another version',
    [EXIT.findings]: 'it found something; the arrows say what to do',
  },
  async run({ options }, { cwd, schema, paint, withDatabase }) {
    const path = options.pipelines
    const pipelines = path === undefined ? undefined : pipelinesOf(await loadModule(path, cwd), path)
    const found = await withDatabase(({ operator }) =>
      operator.doctor(pipelines === undefined ? {} : { pipelines }),
    )
    const findings = found.map((finding) => inCommands(finding, schema))
    const report = { lines: renderFindings(findings, paint), json: { findings } }
    const tables = findings.find(({ check, level }) => check === 'schema' && level === 'error')
    if (tables !== undefined) {
      const message = `${tables.detail} ${tables.remedy ?? ''}`
      return { ...report, exit: EXIT.failed, error: { code: 'not_migrated', message } }
    }
    const isWell = findings.every(({ level }) => level === 'ok')
    return { ...report, exit: isWell ? EXIT.ok : EXIT.findings }
  },
})

/** Turns the functions that core tells programmers to call into commands that operators can run. */
function inCommands(finding: Finding, schema: string): Finding {
  if (finding.remedy === null) return finding
  const where = schemaOption(schema)
  const remedy = finding.remedy
    .replaceAll(/\bmigrate\(pool[^)]*\)/g, `pawl migrate${where}`)
    .replaceAll('migrationSql()', `pawl migrate --print${where}`)
    .replaceAll("list({ status: 'stuck' })", `pawl list --status stuck${where}`)
    .replaceAll('(deadJobs)', `(pawl dead${where})`)
    .replaceAll('requeue them', `requeue them (pawl requeue${where})`)
  return { ...finding, remedy }
}
