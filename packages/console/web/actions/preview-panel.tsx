import { ForeignText } from '../components/foreign-text.js'
import { Icon } from '../components/icon.js'
import type { Preview } from './use-preview.js'
import { WhoWasFirst } from './who-was-first.js'

interface PreviewPanelProps {
  readonly preview: Preview
  /** What was entered is complete. */
  readonly isFilledIn: boolean
}

/** What an action would do, before it is done. It keeps its place while it is empty. */
export function PreviewPanel({ preview: { result, error, isCurrent }, isFilledIn }: PreviewPanelProps) {
  const isRefused = error !== null || result?.type === 'refused'
  return (
    <section
      class={`preview ${isRefused ? 'preview-refused' : ''} ${isFilledIn && !isCurrent ? 'preview-asking' : ''}`}
      aria-live="polite"
      aria-busy={isFilledIn && !isCurrent}
    >
      <h3>{isRefused ? 'It cannot be done' : 'What this will do'}</h3>
      {error !== null && (
        <p>
          <Icon name="warning" /> <ForeignText text={error.message} />
        </p>
      )}
      {error?.by !== null && error?.by !== undefined && <WhoWasFirst by={error.by} />}
      {result !== null && (
        <p class="preview-text">
          <ForeignText text={result.sentence} />
        </p>
      )}
      {result?.type === 'refused' && result.by !== null && <WhoWasFirst by={result.by} />}
      {result === null && error === null && (
        <p class="preview-text preview-none">{isFilledIn ? 'Asking…' : 'Fill this in to see it.'}</p>
      )}
    </section>
  )
}
