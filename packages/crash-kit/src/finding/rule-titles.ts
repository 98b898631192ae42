/**
 * What each rule is about, in a few words. The most important comes first: a lint, from which whatever else is broken mostly
 * follows, and then what a customer would pay for.
 */
const RULE_TITLES: ReadonlyMap<string, string> = new Map([
  ['lint', 'the pipeline is safe to resume'],
  ['I2', 'one effect per key'],
  ['I1', 'one holder per key'],
  ['I11', 'scopes stay apart'],
  ['I3', 'one response per key'],
  ['I15', 'each statement in its transaction'],
  ['I4', 'rows and recovery point together'],
  ['I13', 'jobs exactly with their phase'],
  ['I7', 'nothing uncertain becomes final'],
  ['I9', 'unfinished keys stay'],
  ['I5', 'fences only grow'],
  ['I6', 'recovery points only move forward'],
  ['I8', 'stable provider keys'],
  ['I10', 'each key under its own version'],
  ['I12', 'one request per key'],
  ['told', 'what callers are told is true'],
  ['oracle', 'the same end as without faults'],
  ['L1', 'every key ends'],
  ['I14', 'nothing left behind'],
])

/** `I2 (one effect per key)`; a rule that is not known has no more than its name. */
export function ruleTitle(rule: string): string {
  const title = RULE_TITLES.get(rule)
  return title === undefined ? rule : `${rule} (${title})`
}

/** The smaller, the more important. What is not known comes last. */
export function importanceOf(rule: string): number {
  const index = [...RULE_TITLES.keys()].indexOf(rule)
  return index === -1 ? RULE_TITLES.size : index
}
