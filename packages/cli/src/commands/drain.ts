import { setTimeout as delay } from 'node:timers/promises'
import type { Operator, UnfinishedGroup } from '@pawl/core'
import { usageError } from '../cli-error.js'
import { defineCommand, flag, value } from '../command.js'
import { EXIT } from '../exit-code.js'
import { DEFAULT_DRAIN_TIMEOUT_MS, DRAIN_POLL_MS } from '../limits.js'
import { parseDuration } from '../parse/duration.js'
import { parsePipelineVersion } from '../parse/value.js'
import { renderGroups, unfinishedIn } from '../render/groups.js'
import { safeText } from '../render/safe-text.js'
import { durationText } from '../render/time.js'

export const drainCommand = defineCommand({
  name: 'drain',
  summary: 'what is still in flight under a version of a pipeline',
  args: [{ name: 'pipeline@version', count: 'one' }],
  options: {
    wait: flag('wait until nothing is in flight'),
    timeout: value(
      'DURATION',
      parseDuration,
      `how long to wait; default: ${durationText(DEFAULT_DRAIN_TIMEOUT_MS)}`,
    ),
  },
  details: [
    'When nothing is in flight, the version no longer has to be registered. Stuck keys count, because they continue under it once they are unstuck.',
    'A name that was never used has nothing in flight either, so drain says when it finds no key of that pipeline.',
  ],
  exits: {
    [EXIT.ok]: 'nothing is in flight',
    [EXIT.findings]: 'something is in flight, or still is after --timeout',
  },
  async run({ args, options }, { paint, withDatabase, tell }) {
    const { pipeline, version } = parsePipelineVersion(args[0] ?? '')
    if (options.timeout !== undefined && !options.wait)
      throw usageError('--timeout can be used only with --wait.')
    const { groups, known, now } = await withDatabase(async (database) => {
      const ask = () => database.operator.drain(pipeline, version)
      const timeoutMs = options.timeout ?? DEFAULT_DRAIN_TIMEOUT_MS
      const last = options.wait ? await askUntilNone(ask, timeoutMs, tell) : await ask()
      return {
        groups: last,
        known: last.length > 0 || (await database.operator.hasKeysOf(pipeline)),
        now: await database.now(),
      }
    })
    const left = unfinishedIn(groups)
    const name = `${pipeline}@${version}`
    return {
      exit: left === 0 ? EXIT.ok : EXIT.findings,
      lines:
        left === 0
          ? [`Nothing of ${safeText(name)} is in flight.`, ...(known ? [] : [neverSeen(pipeline)])]
          : [...renderGroups(groups, now, paint), '', `${left} of ${safeText(name)} in flight.`],
      json: { pipeline, version, left, known, unfinished: groups },
    }
  },
})

function neverSeen(pipeline: string): string {
  return `No key of a pipeline '${safeText(pipeline)}' was found, in any version. Is the name spelt correctly?`
}

async function askUntilNone(
  ask: () => ReturnType<Operator['drain']>,
  timeoutMs: number,
  tell: (line: string) => void,
): Promise<readonly UnfinishedGroup[]> {
  const end = performance.now() + timeoutMs
  let told = -1
  for (;;) {
    const groups = await ask()
    const left = unfinishedIn(groups)
    if (left === 0) return groups
    if (left !== told) tell(`${left} in flight …`)
    told = left
    const restMs = end - performance.now()
    if (restMs <= 0) return groups
    await delay(Math.min(DRAIN_POLL_MS, restMs))
  }
}
