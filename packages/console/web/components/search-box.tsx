import { useEffect, useRef } from 'preact/hooks'
import { hrefOf, navigate, usePlace } from '../router/router.js'
import { Icon } from './icon.js'

/** As much as the API takes. */
const MAX_LENGTH = 600

/** Looks for a key, a scope, an id or a provider's reference: on the page of requests. */
export function SearchBox() {
  const { path, query } = usePlace()
  const input = useRef<HTMLInputElement>(null)
  const text = path === 'requests' ? (query['q'] ?? '') : ''
  useEffect(() => {
    if (input.current !== null && document.activeElement !== input.current) input.current.value = text
  }, [text])
  return (
    <form
      class="search"
      role="search"
      onSubmit={(event) => {
        event.preventDefault()
        navigate(hrefOf('requests', { q: input.current?.value.trim() }))
      }}
    >
      <Icon name="search" />
      <label class="unseen" for="search">
        Search by key, scope, id or provider reference
      </label>
      <input
        ref={input}
        id="search"
        type="search"
        placeholder="Key, scope, id or reference"
        maxLength={MAX_LENGTH}
        autoComplete="off"
        spellcheck={false}
        enterkeyhint="search"
        defaultValue={text}
        onKeyDown={(event) => {
          if (event.key === 'Escape') event.currentTarget.blur()
        }}
      />
      <kbd aria-hidden="true">/</kbd>
    </form>
  )
}
