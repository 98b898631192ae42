import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { Finding, type FindingParts } from '../../packages/crash-kit/src/finding/finding.js'
import { importanceOf, ruleTitle } from '../../packages/crash-kit/src/finding/rule-titles.js'
import type { Violation } from '../../packages/crash-kit/src/history.js'

const TWICE: Violation = {
  rule: 'I2',
  title: 'At most one effect per scope, key and effect at the provider.',
  detail: 'charge_created was executed twice at the provider',
}
const OTHER_END: Violation = {
  rule: 'oracle',
  title: 'The final state equals that of a run without faults.',
  detail:
    'the table charges has 2 rows, and 1 without faults:\n+ { id: 2, amount: 900 }\n  { id: 1, amount: 900 }',
}
const PARTS: FindingParts = {
  violations: [OTHER_END, TWICE],
  timeline: [
    { tick: 1, who: 'client', what: 'reserved the key', point: 'started', fence: 1 },
    { tick: 2, who: 'client', what: 'committed ride_created', point: 'ride_created', fence: 1 },
    { tick: 3, who: 'provider', what: 'executed POST /charges', point: null, fence: null },
    { tick: 4, who: 'client', what: 'died', point: 'ride_created', fence: 1 },
    { tick: 5, who: 'completer', what: 'took the key over', point: 'ride_created', fence: 2 },
    { tick: 6, who: 'provider', what: 'executed POST /charges', point: null, fence: null },
  ],
  replay: 'crash@charge_created/call#1:after',
  title: 'crash after charge_created was called, before it was settled',
}

test('a finding says what was broken, in which case, how it happened, and how to see it again', () => {
  expect(`\n${new Finding(PARTS).message}\n`).toMatchInlineSnapshot(`
    "
    I2 (one effect per key): charge_created was executed twice at the provider

      case       crash after charge_created was called, before it was settled
      must hold  At most one effect per scope, key and effect at the provider.

    It also broke:
      - oracle (the same end as without faults): the table charges has 2 rows, and 1 without faults:
        + { id: 2, amount: 900 }
          { id: 1, amount: 900 }

    #  who        what                    recovery point  fence
    1  client     reserved the key        started             1
    2             committed ride_created  ride_created
    3  provider   executed POST /charges
    4  client     died
    5  completer  took the key over                           2
    6  provider   executed POST /charges

    To see it again: await kit.replay('crash@charge_created/call#1:after')
    "
  `)
})

test('its parts can be read, with the most important violation first', () => {
  const cause = new Error('why')
  const finding = new Finding(PARTS, { cause })
  expect(finding).toBeInstanceOf(Error)
  expect(finding.name).toBe('Finding')
  expect(finding.violations).toEqual([TWICE, OTHER_END])
  expect(finding.timeline).toEqual(PARTS.timeline)
  expect(finding.replay).toBe(PARTS.replay)
  expect(finding.title).toBe(PARTS.title)
  expect(finding.cause).toBe(cause)
})

test('a lint comes first, once, and what came after it is left out', () => {
  const lint: Violation = {
    rule: 'lint',
    title: 'a keyed phase sends its provider key',
    detail: 'client sent POST /charges without its key',
    tick: 3,
  }
  const again = { ...lint, detail: 'completer sent POST /charges without its key', tick: 6 }
  const finding = new Finding({ ...PARTS, violations: [OTHER_END, TWICE, lint, again] })
  expect(finding.violations).toEqual([lint, again, TWICE, OTHER_END])
  expect(`\n${finding.message}\n`).toMatchInlineSnapshot(`
    "
    lint (the pipeline is safe to resume): client sent POST /charges without its key

      case       crash after charge_created was called, before it was settled
      must hold  a keyed phase sends its provider key

    It also broke I2, oracle, which mostly follows from this. Fix this first, and run again.

    #  who       what                    recovery point  fence
    1  client    reserved the key        started             1
    2            committed ride_created  ride_created
    3  provider  executed POST /charges
    … and 3 more

    To see it again: await kit.replay('crash@charge_created/call#1:after')
    "
  `)
})

test('with a single violation, no others are listed', () => {
  expect(new Finding({ ...PARTS, violations: [TWICE] }).message).not.toContain('also')
})

test('many violations are counted, not listed', () => {
  const violations = Array.from({ length: 40 }, (_, at) => ({ ...TWICE, detail: `violation ${at}` }))
  const { message } = new Finding({ ...PARTS, violations })
  expect(message).toMatch(/^I2 \(one effect per key\): violation 0\n/)
  expect(message).toContain('violation 10')
  expect(message).not.toContain('violation 11')
  expect(message).toContain('… and 29 more')
})

test('hostile and very long details are made safe for a terminal', () => {
  const detail = `row \u001b[31m"${'x'.repeat(10_000)}"`
  const { message } = new Finding({
    ...PARTS,
    violations: [
      { ...TWICE, detail },
      { ...OTHER_END, detail },
    ],
    title: detail,
  })
  expect(message).not.toMatch(/(?!\n)[\p{Cc}]/u)
  expect(message).toContain('… (10011 characters)')
  expect(message.length).toBeLessThan(5_000)
})

test('the replay line is a JavaScript string', () => {
  const { message } = new Finding({ ...PARTS, replay: "it's \\ and\nmore" })
  const [, literal = ''] = /await kit\.replay\((.*)\)$/.exec(message) ?? []
  expect(JSON.parse(literal.replaceAll("\\'", "'").replaceAll(/^'|'$/g, '"'))).toBe("it's \\ and\nmore")
})

test('its stack has the message, and shows which test it was', () => {
  const { message, stack = '' } = new Finding(PARTS)
  expect(stack.startsWith(`Finding: ${message}\n`)).toBe(true)
  const frames = stack.slice(`Finding: ${message}\n`.length).split('\n')
  expect(frames[0]).toMatch(/^ {4}at .*finding-message\.test\.ts:\d+:\d+\)?$/)
  expect(frames.filter((frame) => /crash-kit[\\/]src|node_modules|node:/.test(frame))).toEqual([])
  expect(frames.length).toBeLessThanOrEqual(5)
})

test('its stack has only a few lines', () => {
  const deep = (levels: number): Finding => (levels === 0 ? new Finding(PARTS) : deep(levels - 1))
  expect(deep(30).stack?.match(/^ {4}at /gm)?.length).toBe(5)
})

test('the test is found although more frames of the kit come first than are kept', () => {
  const { stackTraceLimit } = Error
  // The first one is always the kit's.
  Error.stackTraceLimit = 1
  try {
    expect(new Finding(PARTS).stack).toMatch(/finding-message\.test\.ts:\d+:\d+\)?$/m)
    expect(Error.stackTraceLimit).toBe(1)
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
})

test('printing a finding prints nothing twice', () => {
  const finding = new Finding(PARTS)
  expect(inspect(finding)).toBe(finding.stack)
  expect(Object.keys(finding)).toEqual(['name'])
  // What vitest sends from its workers, and prints.
  const { name, message, stack } = finding
  expect(JSON.parse(JSON.stringify(finding))).toEqual({ name, message, stack })
})

test('every rule has a title, and unknown rules come last', () => {
  const rules = [...Array.from({ length: 14 }, (_, at) => `I${at + 1}`), 'L1', 'oracle', 'outcome', 'lint']
  for (const rule of rules) expect(ruleTitle(rule)).toMatch(/^\w+ \(.{5,40}\)$/)
  expect(new Set(rules.map(importanceOf)).size).toBe(rules.length)
  expect(ruleTitle('I99')).toBe('I99')
  const byImportance = rules.toSorted((a, b) => importanceOf(a) - importanceOf(b))
  expect(byImportance.slice(0, 2)).toEqual(['lint', 'I2'])
  expect(importanceOf('I99')).toBeGreaterThan(importanceOf(byImportance.at(-1) ?? ''))
})
