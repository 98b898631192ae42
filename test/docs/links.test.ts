import { readFile } from 'node:fs/promises'
import { dirname, join, normalize } from 'node:path'
import { expect, test } from 'vitest'
import { isCopiedPage, ourFiles, ROOT } from '../support/our-files.js'

const files = await ourFiles()
const pages = new Map(
  await Promise.all(
    files
      .filter((name) => name.endsWith('.md') && !isCopiedPage(name))
      .map(async (name) => [name, withoutCode(await readFile(join(ROOT, name), 'utf8'))] as const),
  ),
)

/** A `#` or a bracket in an example is neither a heading nor a link. */
function withoutCode(markdown: string): string {
  return markdown.replaceAll(/^```.*?^```$/gms, '')
}

/** As GitHub makes the anchors: lower case, no punctuation but `-` and `_`, dashes for spaces, a number when repeated. */
function anchorsOf(markdown: string): string[] {
  const seen = new Map<string, number>()
  return [...markdown.matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => {
    const anchor = heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-')
    const times = seen.get(anchor) ?? 0
    seen.set(anchor, times + 1)
    return times === 0 ? anchor : `${anchor}-${times}`
  })
}

/** The file that a link of a page leads to. A package has a copy of docs/ beside its README. */
function targetOf(page: string, path: string): string {
  if (path === '') return page
  const target = normalize(join(dirname(page), path))
  return isCopiedPage(target) ? target.replace(/^packages\/[^/]+\//, '') : target
}

test('there are pages, and links between them', () => {
  expect([...pages.keys()]).toEqual(
    expect.arrayContaining(['README.md', 'docs/guide.md', 'packages/cli/README.md']),
  )
  expect(linksOf('README.md').length).toBeGreaterThan(5)
})

function linksOf(page: string): { link: string; path: string; anchor: string | undefined }[] {
  const links = [...(pages.get(page) ?? '').matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link)
  return links
    .filter((link) => !/^[a-z]+:/.test(link))
    .map((link) => {
      const [path = '', anchor] = link.split('#')
      return { link, path, anchor }
    })
}

test.each([...pages.keys()])('every link in %s leads somewhere', (page) => {
  const broken = linksOf(page).filter(({ path, anchor }) => {
    const target = targetOf(page, path)
    const exists = files.some((name) => name === target || name.startsWith(`${target}/`))
    if (!exists || anchor === undefined) return !exists
    return !anchorsOf(pages.get(target) ?? '').includes(anchor)
  })
  expect(broken.map(({ link }) => link)).toEqual([])
})
