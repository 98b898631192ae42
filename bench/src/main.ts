import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { type Arguments, readArguments, USAGE } from './arguments.js'
import { type ContenderName, reasonToLeaveOut } from './contenders/registry.js'
import { drawChart } from './report/chart.js'
import { makeReport, type Report, reportText } from './report/report.js'
import type { Section } from './report/section.js'
import { describeSurroundings } from './report/surroundings.js'
import { Arena } from './run/arena.js'
import { checkConnections } from './run/check-connections.js'
import { openDatabase } from './run/database.js'
import { scenarios } from './scenarios/all.js'
import type { Stage } from './scenarios/scenario.js'

/** The exit code that shells report for a program that Ctrl-C has ended. */
const INTERRUPTED = 130
const WRONG_USE = 2

process.exitCode = await main()
// An interrupted scenario would still wait for answers that never come.
process.exit()

async function main(): Promise<number> {
  let args: Arguments
  try {
    args = readArguments(process.argv.slice(2))
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`)
    return WRONG_USE
  }
  if (args.help) {
    console.log(USAGE)
    return 0
  }
  const interrupted = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]).then(() => null)
  try {
    const report = await measure(args, interrupted)
    if (report === null) return INTERRUPTED
    await tell(report, args)
    return report.errors.length > 0 ? 1 : 0
  } catch (error) {
    console.error(error)
    return 1
  }
}

/** Runs what was asked for. Returns null when it was interrupted. Nothing is left behind, however it ends. */
async function measure(args: Arguments, interrupted: Promise<null>): Promise<Report | null> {
  const start = performance.now()
  const secondsSince = (): number => (performance.now() - start) / 1_000
  const say = (text: string): void => console.error(`${secondsSince().toFixed(0).padStart(4)} s  ${text}`)
  say('PostgreSQL and the provider start')
  const database = await openDatabase(process.env['DATABASE_URL'])
  let arena: Arena | undefined
  try {
    const contenders = args.contenders.filter((name) => canTakePart(name, say))
    checkConnections(database, contenders)
    arena = await Arena.create(database)
    const stage: Stage = {
      arena,
      mode: args.mode,
      among: (names) => names.filter((name) => contenders.includes(name)),
      say,
    }
    const surroundings = await describeSurroundings(database)
    for (const warning of surroundings.warnings) say(`WARNING: ${warning}`)
    const running = runAll(stage, args)
    // Once interrupted, it fails because everything was stopped; nobody has to hear about that.
    running.catch(() => {})
    const sections = await Promise.race([running, interrupted])
    if (sections === null) return null
    return makeReport(sections, { mode: args.mode, seconds: secondsSince(), surroundings })
  } finally {
    await arena?.close()
    await database.close()
  }
}

function canTakePart(name: ContenderName, say: Stage['say']): boolean {
  const reason = reasonToLeaveOut(name)
  if (reason !== null) say(`${name} does not take part: ${reason}`)
  return reason === null
}

async function runAll(stage: Stage, args: Arguments): Promise<Section[]> {
  const sections: Section[] = []
  for (const name of args.scenarios) {
    sections.push(...(await scenarios[name].run(stage)))
    await stage.arena.provider.ask('forget', null)
  }
  const measured = sections.filter(({ lines, figures }) => lines.length > 0 || figures !== undefined)
  if (measured.length === 0) throw new Error('None of these contenders takes part in any of these scenarios.')
  return measured
}

async function tell(report: Report, { json, chart }: Arguments): Promise<void> {
  console.log(json ? JSON.stringify(report, null, 2) : reportText(report))
  if (chart !== null) await writeFile(chart, drawChart(report.sections))
}
