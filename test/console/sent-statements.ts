/** A statement as it went over the wire, with its values as text. */
export interface Sent {
  readonly text: string
  readonly values: readonly (string | null)[]
}

const [PARSE, BIND] = [0x50, 0x42]

/** The statements among the messages of one connection: each has a type, a length, and its content. */
export function sentStatements(bytes: Buffer): Sent[] {
  const sent: Sent[] = []
  const texts = new Map<string, string>()
  for (let at = 0; at + 5 <= bytes.length; at += 1 + bytes.readUInt32BE(at + 1)) {
    const content = bytes.subarray(at + 5, at + 1 + bytes.readUInt32BE(at + 1))
    const type = bytes.readUInt8(at)
    if (type === PARSE) {
      const [name = '', text = ''] = content.toString('utf8').split('\0')
      texts.set(name, text)
    }
    if (type === BIND) {
      const [, name = ''] = content.toString('latin1').split('\0')
      sent.push({ text: texts.get(name) ?? '', values: valuesIn(content) })
    }
  }
  return sent
}

/** After the names of portal and statement: formats, and the values, of which null has the length -1. */
function valuesIn(content: Buffer): (string | null)[] {
  let at = content.indexOf(0, content.indexOf(0) + 1) + 1
  at += 2 + 2 * content.readInt16BE(at)
  const count = content.readInt16BE(at)
  at += 2
  return Array.from({ length: count }, () => {
    const length = content.readInt32BE(at)
    at += 4
    if (length === -1) return null
    at += length
    return content.toString('utf8', at - length, at)
  })
}
