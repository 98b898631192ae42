import type { Guarantee } from '@pawl/core'

/** What keeps a call from being made twice, in a word and in a sentence. */
export const GUARANTEE_TEXT: Readonly<
  Record<Guarantee, { readonly word: string; readonly meaning: string }>
> = {
  keyed: {
    word: 'keyed',
    meaning: 'Its provider knows a repeated call by its key, and executes it once.',
  },
  queryable: {
    word: 'queryable',
    meaning: 'Its provider is asked what became of a call before it is made again.',
  },
  at_most_once: {
    word: 'at most once',
    meaning: 'It is never made again: if it is interrupted, a person decides.',
  },
}
