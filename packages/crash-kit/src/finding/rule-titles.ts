/**
 * What each rule is about, in a few words. The most important rule comes first: a lint, from which everything else mostly follows,
 * and then what a customer would pay for.
 */
const RULE_TITLES: ReadonlyMap<string, string> = new Map([
  ['lint', 'the pipeline is safe to resume'],
  ['I2', 'one effect per key'],
  ['I1', 'one holder per key'],
  ['I11', 'scopes stay apart'],
  ['I17', 'protected values are sealed'],
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
  ['outcome', 'callers get true outcomes'],
  ['oracle', 'the same end as without faults'],
  ['L1', 'every key ends'],
  ['I14', 'nothing left behind'],
])

/** Returns `I2 (one effect per key)`, or only the name of an unknown rule. */
export function ruleTitle(rule: string): string {
  const title = RULE_TITLES.get(rule)
  return title === undefined ? rule : `${rule} (${title})`
}

/** Returns a number that is smaller the more important the rule is. Unknown rules come last. */
export function importanceOf(rule: string): number {
  const index = [...RULE_TITLES.keys()].indexOf(rule)
  return index === -1 ? RULE_TITLES.size : index
}
