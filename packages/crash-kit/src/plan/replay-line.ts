import { KitError } from '../kit-error.js'
import { MAX_SHOWN_TEXT } from '../limits.js'
import type { PlannedFault } from './planned-fault.js'
import { NAME, parsePosition } from './named-position.js'
import { safeText } from '../safe-text.js'

/** What is to run again: a plan of faults, or one schedule of several actors. */
export type Replay =
  | {
      readonly kind: 'plan'
      readonly plan: readonly PlannedFault[]
      /** Present if its crashes are those of child processes. */
      readonly mode?: 'process'
    }
  | {
      readonly kind: 'races'
      readonly actors: readonly string[]
      readonly seed: number
      /** The path to the smallest case, as fast-check reports it. Empty for all cases of the seed. */
      readonly path: string
      readonly runs?: number
    }

const NO_FAULTS = 'no faults'
const PROCESS = 'process: '
const FAULT = new RegExp(`^(?:recovery ([1-9][0-9]{0,14}): )?(${NAME})@(\\S*)$`)
const RACES = new RegExp(`^races (${NAME}(?:,${NAME})*)((?: \\S+)*)$`)
const RACE_OPTION = /^(seed|path|runs)=(.*)$/
const PATH = /^\d+(?::\d+)*$/
const WHOLE_NUMBER = /^(?:0|-?[1-9][0-9]{0,14})$/

const EXAMPLES =
  'Copy the line that a finding ends with, such as\n' +
  "  'crash@charge_created/call#1:after'\n" +
  "  'crash@charge_created/call#1:after; recovery 1: lostCommitAck@finished/commit#1:before'\n" +
  "  'process: crash@charge_created/call#1:after'\n" +
  "  'races client,duplicate,zombie seed=123 path=4:1:0'"

/**
 * Returns the line that `kit.replay` takes. As long as names are what core accepts (letters, digits, `_`, `.`, `-`), it needs no
 * escapes in a string of JavaScript or of a shell.
 */
export function formatReplay(replay: Replay): string {
  switch (replay.kind) {
    case 'plan':
      return (replay.mode === 'process' ? PROCESS : '') + formatPlan(replay.plan)
    case 'races': {
      const { actors, seed, path, runs } = replay
      const options = [
        `seed=${seed}`,
        ...(path === '' ? [] : [`path=${path}`]),
        ...(runs === undefined ? [] : [`runs=${runs}`]),
      ]
      return ['races', actors.join(','), ...options].join(' ')
    }
  }
}

/** Reads such a line. Throws a `KitError` that says what is wrong with it. */
export function parseReplay(text: string): Replay {
  const line = text.trim()
  if (line === '') throw invalid('it is empty')
  if (/^races(?:\s|$)/.test(line)) return parseRaces(line)
  if (!line.startsWith(PROCESS)) return { kind: 'plan', plan: parsePlan(line) }
  return { kind: 'plan', plan: parsePlan(line.slice(PROCESS.length)), mode: 'process' }
}

function formatPlan(plan: readonly PlannedFault[]): string {
  return plan.length === 0 ? NO_FAULTS : plan.map(formatFault).join('; ')
}

function parsePlan(text: string): PlannedFault[] {
  return text === NO_FAULTS ? [] : text.split(/;\s*/).map(parseFault)
}

function formatFault({ attempt, fault, at }: PlannedFault): string {
  return `${attempt === 0 ? '' : `recovery ${attempt}: `}${fault}@${at}`
}

function parseFault(text: string): PlannedFault {
  const [, recovery, fault, at] = FAULT.exec(text) ?? []
  if (fault === undefined || at === undefined) {
    throw invalid(`${quoted(text)} is not fault@position, or 'recovery N: fault@position'`)
  }
  return { attempt: recovery === undefined ? 0 : Number(recovery), fault, at: checkedPosition(at) }
}

function checkedPosition(at: string): string {
  try {
    return parsePosition(at).text
  } catch (error) {
    throw invalid(`${quoted(at)} is not a position, which is phase/step#occurrence:before or :after`, {
      cause: error,
    })
  }
}

function parseRaces(line: string): Replay {
  const [, actors, rest] = RACES.exec(line) ?? []
  if (actors === undefined || rest === undefined) {
    throw invalid(`after 'races' it takes the actors, joined by commas, and then options`)
  }
  const options = parseRaceOptions(rest.split(' ').slice(1))
  const { seed, path = '', runs } = options
  if (seed === undefined) throw invalid('seed= is missing')
  if (path !== '' && !PATH.test(path)) throw invalid(`path ${quoted(path)} is not numbers joined by colons`)
  const replay = { kind: 'races' as const, actors: actors.split(','), seed: numberOf('seed', seed), path }
  return runs === undefined ? replay : { ...replay, runs: countOf('runs', runs) }
}

function parseRaceOptions(words: readonly string[]): Partial<Record<'seed' | 'path' | 'runs', string>> {
  const options: Partial<Record<'seed' | 'path' | 'runs', string>> = {}
  for (const word of words) {
    const [, name, value] = RACE_OPTION.exec(word) ?? []
    if (name === undefined || value === undefined) {
      throw invalid(`${quoted(word)} is not one of seed=, path= and runs=`)
    }
    if (options[name as 'seed'] !== undefined) throw invalid(`${name}= appears twice`)
    options[name as 'seed'] = value
  }
  return options
}

function numberOf(name: string, value: string): number {
  if (!WHOLE_NUMBER.test(value)) throw invalid(`${name} ${quoted(value)} is not a whole number`)
  return Number(value)
}

function countOf(name: string, value: string): number {
  const count = numberOf(name, value)
  if (count < 1) throw invalid(`${name} ${quoted(value)} is less than 1`)
  return count
}

function quoted(text: string): string {
  return `'${safeText(text, MAX_SHOWN_TEXT)}'`
}

function invalid(what: string, options?: { readonly cause: unknown }): KitError {
  return new KitError('PAWL_KIT_INVALID_REPLAY', `This cannot be replayed: ${what}. ${EXAMPLES}`, options)
}
