/** Who sent a message. */
export type Sender = 'client' | 'server'

/** `I` idle, `T` in a transaction, `E` in a failed one: what the last ReadyForQuery of a connection said. */
export type TransactionStatus = 'I' | 'T' | 'E'

/** One message of the protocol. */
export interface WireMessage {
  /** Which connection of the proxy's: 1 is the first that was opened. */
  readonly connection: number
  readonly from: Sender
  /** How many came before it on this connection and from this side. */
  readonly nth: number
  /** As the manual calls it, such as `Parse`, `Sync` or `ReadyForQuery`. */
  readonly type: string
  /** How many round trips the client had ended on this connection by a Sync or a Query, before this message. */
  readonly roundTrip: number
  /** The connection's transaction when the message came; null until the server is ready for the first time. */
  readonly status: TransactionStatus | null
  /** All of it, with its type and length. Only to be read before the director returns. */
  readonly bytes: Buffer
}

export const STARTUP = 'StartupMessage'
export const CANCEL = 'CancelRequest'
export const READY = 'ReadyForQuery'

/** The types that share a letter with another one's are told apart by who sends them. */
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

/** What a message with this first byte is called. */
export function messageName(from: Sender, code: number): string {
  return BY_CODE[from][code] ?? 'message'
}

/** The text of a Parse or a Query; null for any other message. */
export function statementIn({ type, from, bytes }: WireMessage): string | null {
  if (from !== 'client' || (type !== 'Parse' && type !== 'Query')) return null
  // A Parse has the statement's name first, which ends in a NUL as the text does.
  const start = type === 'Query' ? 5 : bytes.indexOf(0, 5) + 1
  return bytes.toString('utf8', start, bytes.indexOf(0, start))
}
