import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, test } from 'vitest'

/**
 * Each file of `wrong-uses/` is a list of mistakes, each below a comment `// error: …` with the message that the compiler
 * has to report. The compiler runs once over all of them.
 */
const FOLDER = fileURLToPath(new URL('wrong-uses', import.meta.url))
const EXPECTATION = /^\s*\/\/ error: (.*)$/

interface Mistake {
  readonly file: string
  readonly line: number
  /** Up to here, a diagnostic is about this mistake. */
  readonly lastLine: number
  readonly message: string
  readonly code: string
}

interface Diagnostic {
  readonly file: string
  readonly line: number
  readonly text: string
}

function readMistakes(file: string): Mistake[] {
  const lines = readFileSync(join(FOLDER, file), 'utf8').split('\n')
  const starts = lines.flatMap((text, line) => (EXPECTATION.test(text) ? [line] : []))
  return starts.map((start) => {
    const end = lines.findIndex((text, line) => line > start && (text.trim() === '' || text.includes('//')))
    return {
      file,
      line: start + 2,
      lastLine: end === -1 ? lines.length : end,
      message: EXPECTATION.exec(lines[start] ?? '')?.[1] ?? '',
      code: (lines[start + 1] ?? '').trim(),
    }
  })
}

/** A diagnostic begins with its place, and the lines of its explanation are indented. */
function readDiagnostics(output: string): Diagnostic[] {
  return output
    .split(/\n(?=\S)/)
    .filter((text) => text.trim() !== '')
    .map((text) => {
      const place = /^(\S+)\((\d+),\d+\): error /.exec(text)
      return { file: basename(place?.[1] ?? '?'), line: Number(place?.[2]), text }
    })
}

function compile(): Promise<string> {
  const typescript = dirname(createRequire(import.meta.url).resolve('typescript/package.json'))
  const args = [join(typescript, 'bin/tsc'), '--noEmit', '--pretty', 'false', '-p', FOLDER]
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, { maxBuffer: 16 * 1024 * 1024 }, (error, stdout) => {
      if (stdout === '') reject(error ?? new Error('the compiler found nothing wrong'))
      else resolve(stdout)
    })
  })
}

const isAbout = (mistake: Mistake) => (diagnostic: Diagnostic) =>
  diagnostic.file === mistake.file && diagnostic.line >= mistake.line && diagnostic.line <= mistake.lastLine

const mistakes = readdirSync(FOLDER)
  .filter((file) => file.endsWith('.ts'))
  .flatMap(readMistakes)

describe('the compiler refuses', () => {
  let diagnostics: Diagnostic[]
  beforeAll(async () => {
    diagnostics = readDiagnostics(await compile())
  })

  test.each(mistakes.map((mistake) => [mistake.code, mistake] as const))('%s', (_, mistake) => {
    const found = diagnostics.filter(isAbout(mistake))
    expect(found.map(({ text }) => text)).toEqual([expect.stringContaining(mistake.message)])
  })

  test('nothing else', () => {
    const others = diagnostics.filter(
      (diagnostic) => !mistakes.some((mistake) => isAbout(mistake)(diagnostic)),
    )
    expect(others.map(({ text }) => text)).toEqual([])
  })
})
