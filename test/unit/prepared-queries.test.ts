import { expect, test } from 'vitest'
import { PreparedQueries } from '../../packages/core/src/driver/prepared-name.js'
import { PREPARE_AFTER_USES, PREPARED_QUERIES } from '../../packages/core/src/limits.js'

const times = (count: number, use: (time: number) => string | null) =>
  Array.from({ length: count }, (_, time) => use(time))

test('a query is prepared once it has been used often, and keeps its name', () => {
  const queries = new PreparedQueries()
  const names = times(PREPARE_AFTER_USES + 2, () => queries.nameOf('SELECT $1'))
  const [last] = names.slice(-1)
  expect(last).toMatch(/^pawl_query_[0-9a-f]{16}$/)
  expect(names).toEqual([...times(PREPARE_AFTER_USES - 1, () => null), last, last, last])
})

test('two queries never share a name', () => {
  const queries = new PreparedQueries()
  const [one, other] = ['SELECT $1', 'SELECT $2'].map((text) =>
    times(PREPARE_AFTER_USES, () => queries.nameOf(text)).at(-1),
  )
  expect(one).not.toBe(other)
})

test('queries that are used once do not keep others from being prepared', () => {
  const queries = new PreparedQueries()
  times(10 * PREPARED_QUERIES, (time) => queries.nameOf(`SELECT $1 /* ${time} */`))
  expect(times(PREPARE_AFTER_USES, () => queries.nameOf('SELECT $1')).at(-1)).not.toBeNull()
})

test('the counts do not grow without end, because old uses are forgotten', () => {
  const queries = new PreparedQueries()
  times(PREPARE_AFTER_USES - 1, () => queries.nameOf('SELECT $1'))
  times(PREPARED_QUERIES, (time) => queries.nameOf(`SELECT $1 /* ${time} */`))
  expect(queries.nameOf('SELECT $1')).toBeNull()
})

test('no more than the maximum number of queries is prepared', () => {
  const queries = new PreparedQueries()
  const names = times(
    PREPARED_QUERIES + 5,
    (text) => times(PREPARE_AFTER_USES, () => queries.nameOf(`SELECT $1 /* ${text} */`)).at(-1) ?? null,
  )
  expect(names.filter((name) => name !== null)).toHaveLength(PREPARED_QUERIES)
  expect(queries.nameOf('SELECT $1 /* 0 */')).toBe(names[0])
})
