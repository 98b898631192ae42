import type { PoolClient } from 'pg'
import { CANCEL_REQUEST_MS } from '../limits.js'

/** The parts of `pg`'s client and connection that a cancel request needs; its types leave them out. */
interface CancellableClient {
  readonly host?: string
  readonly port?: number
  readonly ssl?: unknown
  readonly sslNegotiation?: string
  readonly processID?: number | null
  readonly secretKey?: number | null
  readonly connection?: { readonly constructor: new (options: object) => CancelConnection }
}

interface CancelConnection {
  readonly stream: { destroy(): void }
  connect(portOrPath: number | string, host?: string): void
  requestSsl(): void
  cancel(processId: number, secretKey: number): void
  on(event: 'connect' | 'sslconnect' | 'end' | 'error', listener: () => void): void
}

/**
 * Asks the server to end what a client's backend is doing, over a separate connection. A backend that waits for a lock does
 * not notice that its client has gone: if it were cut off without this, it would stay, and a pool that replaces it would
 * exceed its bound. Calls back once the server has taken the request, or has had enough time: the request is only a wish,
 * and nothing depends on it.
 */
export function requestCancel(client: PoolClient, done: () => void): void {
  const { host, port, ssl, sslNegotiation, processID, secretKey, connection } =
    client as unknown as CancellableClient
  const Connection = connection?.constructor
  if (
    Connection === undefined ||
    host === undefined ||
    port === undefined ||
    processID == null ||
    secretKey == null
  ) {
    done()
    return
  }
  const asking = new Connection({ ssl, sslNegotiation })
  let over = false
  const end = (): void => {
    if (over) return
    over = true
    clearTimeout(timer)
    asking.stream.destroy()
    done()
  }
  const timer = setTimeout(end, CANCEL_REQUEST_MS)
  const cancel = (): void => asking.cancel(processID, secretKey)
  asking.on('error', end)
  // The server closes the connection when it has passed the request on.
  asking.on('end', end)
  asking.on('sslconnect', cancel)
  asking.on('connect', () => {
    if (!ssl) cancel()
    else if (sslNegotiation !== 'direct') asking.requestSsl()
  })
  if (host.startsWith('/')) asking.connect(`${host}/.s.PGSQL.${port}`)
  else asking.connect(port, host)
}
