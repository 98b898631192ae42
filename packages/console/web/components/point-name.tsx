import { Fragment } from 'preact'
import { ForeignText } from './foreign-text.js'

/** The name of a recovery point where there is little room: it may be broken where its words are joined. */
export function PointName({ name }: { readonly name: string }) {
  if (!/^[\w-]+$/.test(name)) return <ForeignText text={name} />
  return (
    <span class="point-name">
      {name.split(/(?<=[_-])/).map((word, index) => (
        <Fragment key={index}>
          {index > 0 && <wbr />}
          {word}
        </Fragment>
      ))}
    </span>
  )
}
