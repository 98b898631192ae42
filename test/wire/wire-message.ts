/** Who sent a message. */
export type Sender = 'client' | 'server'

/** What the last ReadyForQuery of a connection said: `I` idle, `T` in a transaction, `E` in a failed one. */
export type TransactionStatus = 'I' | 'T' | 'E'

/** One message of the protocol. */
export interface WireMessage {
  /** Which connection of the proxy it belongs to: 1 is the first that was opened. */
  readonly connection: number
  readonly from: Sender
  /** How many came before it on this connection and from this side. */
  readonly nth: number
  /** Its name in PostgreSQL's manual, such as `Parse`, `Sync` or `ReadyForQuery`. */
  readonly type: string
  /** How many round trips the client had ended with a Sync or a Query on this connection before this message. */
  readonly roundTrip: number
  /** The state of the connection's transaction when the message came, or null until the server is ready for the first time. */
  readonly status: TransactionStatus | null
  /** All its bytes, with type and length. They may only be read before `decide` returns. */
  readonly bytes: Buffer
}

export const STARTUP = 'StartupMessage'
export const CANCEL = 'CancelRequest'
export const READY = 'ReadyForQuery'

/** Types that share a letter are distinguished by who sends them. */
const NAMES: Readonly<Record<Sender, Readonly<Record<string, string>>>> = {
  client: {
    B: 'Bind',
    C: 'Close',
    D: 'Describe',
    E: 'Execute',
    F: 'FunctionCall',
    H: 'Flush',
    P: 'Parse',
    Q: 'Query',
    S: 'Sync',
    X: 'Terminate',
    c: 'CopyDone',
    d: 'CopyData',
    f: 'CopyFail',
    p: 'PasswordMessage',
  },
  server: {
    '1': 'ParseComplete',
    '2': 'BindComplete',
    '3': 'CloseComplete',
    A: 'NotificationResponse',
    C: 'CommandComplete',
    D: 'DataRow',
    E: 'ErrorResponse',
    G: 'CopyInResponse',
    H: 'CopyOutResponse',
    I: 'EmptyQueryResponse',
    K: 'BackendKeyData',
    N: 'NoticeResponse',
    R: 'Authentication',
    S: 'ParameterStatus',
    T: 'RowDescription',
    V: 'FunctionCallResponse',
    Z: READY,
    c: 'CopyDone',
    d: 'CopyData',
    n: 'NoData',
    s: 'PortalSuspended',
    t: 'ParameterDescription',
    v: 'NegotiateProtocolVersion',
  },
}

const byCode = (from: Sender): readonly string[] =>
  Array.from({ length: 256 }, (_, code) => NAMES[from][String.fromCharCode(code)] ?? `message ${code}`)

const BY_CODE: Readonly<Record<Sender, readonly string[]>> = {
  client: byCode('client'),
  server: byCode('server'),
}

/** The name of a message with this first byte. */
export function messageName(from: Sender, code: number): string {
  return BY_CODE[from][code] ?? 'message'
}

const textAt = (bytes: Buffer, start: number): string =>
  bytes.toString('utf8', start, bytes.indexOf(0, start))

/** The name that a Parse gives its statement; empty if it has none. */
export function parsedAs({ bytes }: WireMessage): string {
  return textAt(bytes, 5)
}

/** The name of the statement that a Bind is about. The name of the portal comes before it. */
export function boundStatement({ bytes }: WireMessage): string {
  return textAt(bytes, bytes.indexOf(0, 5) + 1)
}

/** The text of a Parse or a Query, and null for any other message. */
export function statementIn({ type, from, bytes }: WireMessage): string | null {
  if (from !== 'client' || (type !== 'Parse' && type !== 'Query')) return null
  // A Parse begins with the statement's name, which ends in a NUL as the text does.
  const start = type === 'Query' ? 5 : bytes.indexOf(0, 5) + 1
  return textAt(bytes, start)
}
