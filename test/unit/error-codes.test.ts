import { readFile } from 'node:fs/promises'
import { errorCodes } from '@pawl/core'
import { expect, test } from 'vitest'

const PAGE = new URL('../../docs/errors.md', import.meta.url)

test('docs/errors.md has a section with a text for every error code, and for no other', async () => {
  const page = await readFile(PAGE, 'utf8')
  const [, ...sections] = page.split(/^## /m)
  const listed = sections.map((section) => {
    const [heading = '', ...lines] = section.split('\n')
    return { code: heading.replaceAll('`', '').trim(), text: lines.join('\n').trim() }
  })
  const codes = listed.map(({ code }) => code)
  expect(codes.toSorted()).toEqual(Object.keys(errorCodes).toSorted())
  expect(listed.filter(({ text }) => text.length < 40)).toEqual([])
})

test('every error code has a sentence', () => {
  expect(Object.values(errorCodes).filter((sentence) => !/^.{20,}\.$/.test(sentence))).toEqual([])
})
