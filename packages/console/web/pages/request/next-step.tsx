import type { NextMove } from '@pawl/core'
import type { AsJson } from '../../../src/api.js'
import { ForeignText } from '../../components/foreign-text.js'
import { Icon } from '../../components/icon.js'
import { Identifier } from '../../components/identifier.js'
import type { ReportNow } from './request-page.js'

type MoveNow = AsJson<NextMove>

/** What a resume would do now, in the words of core. */
export function NextStep({ report: { next, key } }: { readonly report: ReportNow }) {
  if (next === null) return null
  return (
    <div class="next">
      <h2 class="next-title">{key.status === 'finished' ? 'What a retry gets' : 'What would happen next'}</h2>
      <Move move={next} />
      {'then' in next && next.then !== null && (
        <div class="next-then">
          <h3>{next.type === 'needs_a_person' ? 'If it is retried without a decision' : 'After that'}</h3>
          <Move move={next.then} isSaid={next.sentence.includes(next.then.sentence)} />
        </div>
      )}
    </div>
  )
}

interface MoveProps {
  readonly move: MoveNow
  /** Its sentence is a part of the one above. */
  readonly isSaid?: boolean
}

function Move({ move, isSaid = false }: MoveProps) {
  return (
    <>
      {!isSaid && (
        <p class="next-sentence">
          {move.callsProvider && <Icon name="call" />}
          <ForeignText text={move.sentence} />
        </p>
      )}
      <p class="muted">
        <ForeignText text={move.because} />
      </p>
      {'providerKey' in move && move.providerKey !== null && (
        <p class="next-key">
          <span class="muted">Provider key</span> <Identifier text={move.providerKey} what="provider key" />
        </p>
      )}
    </>
  )
}
