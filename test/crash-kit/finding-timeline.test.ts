import fc from 'fast-check'
import { expect, test } from 'vitest'
import { renderTimeline } from '../../packages/crash-kit/src/finding/render-timeline.js'
import { safeText } from '../../packages/crash-kit/src/safe-text.js'
import type { TimelineEntry } from '../../packages/crash-kit/src/history.js'
import { textWidth, wrapText } from '../../packages/crash-kit/src/finding/wrap-text.js'
import { assertProperty } from '../property/support/assert-property.js'

/** Parameters are in the order of a line: who, what, recovery point, fence. */
type Line = readonly [who: string, what: string, point: string | null, fence: number | null]

const timelineOf = (...lines: readonly Line[]): TimelineEntry[] =>
  lines.map(([who, what, point, fence], index) => ({ tick: index + 1, who, what, point, fence }))

/** Starts on a line of its own, so that columns are aligned in the snapshot. */
const shown = (...lines: readonly Line[]) => `\n${renderTimeline(timelineOf(...lines))}\n`

test('the timeline shows who did what, and names actor, point and fence where they change', () => {
  expect(
    shown(
      ['client', 'reserved the key', 'started', 1],
      ['client', 'committed ride_created', 'ride_created', 1],
      ['client', 'called charge_created', 'ride_created', 1],
      ['provider', 'executed POST /charges under the key 1b2e…', null, null],
      ['client', 'died after charge_created was called, before it was settled', 'ride_created', 1],
      ['kit', 'time passes: all leases are over', 'ride_created', 1],
      ['completer', 'took the key over', 'ride_created', 2],
      ['completer', 'called charge_created', 'ride_created', 2],
      ['provider', 'executed POST /charges under the key 77aa…', null, null],
      ['completer', 'committed charge_created', 'charge_created', 2],
      ['completer', 'stored the response 201', 'finished', 2],
    ),
  ).toMatchInlineSnapshot(`
    "
     #  who        what                                                         recovery point  fence
     1  client     reserved the key                                             started             1
     2             committed ride_created                                       ride_created
     3             called charge_created
     4  provider   executed POST /charges under the key 1b2e…
     5  client     died after charge_created was called, before it was settled
     6  kit        time passes: all leases are over
     7  completer  took the key over                                                                2
     8             called charge_created
     9  provider   executed POST /charges under the key 77aa…
    10  completer  committed charge_created                                     charge_created
    11             stored the response 201                                      finished
    "
  `)
})

test('a text that is too wide is wrapped within its column', () => {
  expect(
    shown(
      [
        'client',
        `was told retry_later: ${'the database was away, and nobody knew for how long; '.repeat(3)}`,
        'started',
        1,
      ],
      [
        'an-actor-with-a-very-long-name',
        'reserved the key',
        'a_phase_whose_name_is_longer_than_most_of_them',
        12,
      ],
    ),
  ).toMatchInlineSnapshot(`
    "
    #  who               what                                                  recovery point                fence
    1  client            was told retry_later: the database was away, and      started                           1
                         nobody knew for how long; the database was away, and
                         nobody knew for how long; the database was away, and
                         nobody knew for how long;
    2  an-actor-with-a-  reserved the key                                      a_phase_whose_name_is_longer     12
       very-long-name                                                          _than_most_of_them
    "
  `)
})

test('hostile values cannot leave their cells', () => {
  expect(
    shown(
      ['client\n2  provider', 'sent \u001b[2Jkey\r\n\u202eevil', 'ride\u0000', 1],
      ['client', '東京 🚲 é', 'ride_created', 2],
      ['client', 'x'.repeat(5_000), 'ride_created', 2],
    ),
  ).toMatchInlineSnapshot(`
    "
    #  who               what                                                                recovery point  fence
    1  client\\u000a2     sent \\u001b[2Jkey\\u000d\\u000a\\u202eevil                             ride\\u0000          1
       provider
    2  client            東京 🚲 é                                                           ride_created        2
    3                    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                         xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                         xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                         xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                         xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                         xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                         xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                         xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                         xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
                         xxxxxx… (5000 characters)
    "
  `)
})

test('a text is not cut in the middle of a character', () => {
  expect(safeText('a bike 🚲', 8)).toBe('a bike … (9 characters)')
  expect(safeText('a bike 🚲', 9)).toBe('a bike 🚲')
})

test('an empty timeline says that it is empty', () => {
  expect(renderTimeline([])).toBe('(nothing was recorded)')
})

test('if there are very many entries, the middle is left out, and the rest can be read by itself', () => {
  const entries = timelineOf(...Array.from({ length: 1_000 }, (): Line => ['client', 'moved', 'started', 1]))
  const lines = renderTimeline(entries).split('\n')
  expect(lines.length).toBe(1 + 30 + 1 + 90)
  expect(lines[1]).toMatch(/^ +1 {2}client {2}moved {2}started +1$/)
  expect(lines[30]).toMatch(/^ +30 +moved$/)
  expect(lines[31]).toBe('… 880 more …')
  expect(lines[32]).toMatch(/^ *911 {2}client {2}moved {2}started +1$/)
  expect(lines.at(-1)).toMatch(/^1000 +moved$/)
})

const text = fc.oneof(
  fc
    .array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 300 })
    .map((units) => String.fromCharCode(...units)),
  fc
    .array(
      fc.constantFrom(
        'a',
        'ride_created ',
        '\n',
        '\u001b[1m',
        '東京',
        '🚲',
        'e\u0301',
        '👩‍🚀',
        'x'.repeat(200),
      ),
      {
        maxLength: 20,
      },
    )
    .map((all) => all.join('')),
)
const entry = fc.record({
  tick: fc.nat(),
  who: text,
  what: text,
  point: fc.option(text),
  fence: fc.option(fc.nat()),
})

test('no line is wider than 110 columns, or contains what a terminal would obey', async () => {
  await assertProperty(
    fc.property(fc.array(entry, { maxLength: 8 }), (entries) => {
      const lines = renderTimeline(entries).split('\n')
      expect(lines.filter((line) => textWidth(line) > 110)).toEqual([])
      expect(lines.filter((line) => /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u.test(line))).toEqual([])
    }),
  )
})

test('wrapped text is complete, in lines that fit', async () => {
  await assertProperty(
    fc.property(fc.nat(60), text, fc.integer({ min: 2, max: 40 }), (indent, words, width) => {
      const given = ' '.repeat(indent) + words
      const lines = wrapText(given, width)
      expect(lines.filter((line) => textWidth(line) > width)).toEqual([])
      expect(lines.join('').replaceAll(' ', '')).toBe(given.replaceAll(' ', ''))
    }),
  )
})
