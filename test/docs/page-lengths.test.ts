import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'

/** Pages that are read from top to bottom, often in a hurry. What does not fit has a page of its own. */
test.each([
  ['README.md', 1_300],
  ['docs/operations.md', 2_000],
  ['docs/crash-testing.md', 2_000],
])('%s has at most %i words', async (page, most) => {
  const text = await readFile(new URL(`../../${page}`, import.meta.url), 'utf8')
  expect(text.split(/\s+/).length).toBeLessThanOrEqual(most)
})
