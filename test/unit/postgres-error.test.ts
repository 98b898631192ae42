import { describe, expect, test } from 'vitest'
import { isPreparedInVain } from '../../packages/core/src/driver/postgres-error.js'
import { advanceFoundNoRow } from '../../packages/core/src/storage/keys/held-or-fail.js'

const serverError = (code: string, message: string, more = {}) => ({
  code,
  severity: 'ERROR',
  message,
  ...more,
})

describe('the error for a prepared statement of ours that the server has forgotten is recognized in every language', () => {
  test.each([
    'prepared statement "pawl_insert_key_0123456789abcdef" does not exist',
    'vorbereitete Anweisung »pawl_insert_key_0123456789abcdef« existiert nicht',
    "l'instruction préparée « pawl_insert_key_0123456789abcdef » n'existe pas",
    'プリペアド文"pawl_insert_key_0123456789abcdef"は存在しません',
  ])('%s', (message) => {
    expect(isPreparedInVain(serverError('26000', message))).toBe(true)
  })

  test("but not the application's own, nor another error that names ours", () => {
    expect(isPreparedInVain(serverError('26000', 'prepared statement "theirs" does not exist'))).toBe(false)
    expect(isPreparedInVain(serverError('42P05', 'prepared statement "pawl_x" already exists'))).toBe(false)
  })
})

describe('the error of being fenced off is recognized in every language of the server', () => {
  test.each([
    'invalid input syntax for type integer: "pawl: fenced off, rows: 0"',
    'ungültige Eingabesyntax für Typ integer: »pawl: fenced off, rows: 0«',
    'syntaxe en entrée invalide pour le type integer : « pawl: fenced off, rows: 0 »',
  ])('%s', (message) => {
    expect(advanceFoundNoRow(serverError('22P02', message))).toBe(true)
    expect(advanceFoundNoRow(serverError('22P02', message, { where: 'PL/pgSQL function f()' }))).toBe(false)
    expect(advanceFoundNoRow(serverError('22003', message))).toBe(false)
  })
})
