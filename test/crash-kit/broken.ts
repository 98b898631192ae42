import { judge } from '../../packages/crash-kit/src/oracle/judge.js'
import type { HistoryBuilder } from './history-builder.js'
import { RIDES } from './ride-histories.js'

/** Returns what the rule reports about the story, without a clean run to compare it with. */
export function broken(rule: string, story: HistoryBuilder): string[] {
  return judge(story.build(), RIDES, null)
    .filter((violation) => violation.rule === rule)
    .map(({ detail }) => detail)
}
