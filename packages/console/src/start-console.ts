import { hostname, userInfo } from 'node:os'
import type { AddressInfo } from 'node:net'
import { PawlError, type Protection } from '@pawl/core'
import { checkKnownOptions, checkWholeNumber, invalidOption, type OptionOwner } from '@pawl/core/internal'
import Fastify, { type FastifyReply } from 'fastify'
import pg from 'pg'
import { ConsoleError } from './console-error.js'
import { fastifyPawlConsole } from './console-plugin.js'
import { errorLog } from './error-log.js'
import { CONNECT_TIMEOUT_MS, DEFAULT_PORT, MAX_TOKEN_LENGTH, MIN_TOKEN_LENGTH } from './limits.js'
import { LocalSignIn } from './local-sign-in.js'
import { isLoopback } from './loopback.js'
import { invalid } from './parse-query.js'
import { SECURITY_HEADERS } from './security-headers.js'
import { tellFailure } from './tell-failure.js'

/** What a console of its own works with. */
export interface StartConsoleOptions {
  /** The database's address, such as `DATABASE_URL`. */
  readonly url: string
  /** Reads: a role that may only read, or a replica. Default: `url`, on connections that are read-only. */
  readonly readUrl?: string
  /** Default 7295; 0 for any that is free. */
  readonly port?: number
  /** Default 127.0.0.1. On another, a token is needed, and TLS in front of it. */
  readonly host?: string
  /** Signs browsers in any number of times. Default: one that works once, and then another. */
  readonly token?: string
  /** Who it is, for the record. Default: `user@host`. */
  readonly actor?: string
  /** Whether anything can be changed or revealed. Default: yes. */
  readonly readOnly?: boolean
  readonly schema?: string
  readonly protect?: Protection
  readonly hashSecret?: string
  readonly traceUrl?: string
  readonly pollMs?: number
  /** Called with an address that signs in one browser: at the start, and again whenever the one before was used. */
  readonly onAddress?: (address: string) => void
  /** Called with what goes wrong while answering, such as why the database is away. Default: nothing is logged. */
  readonly onError?: (error: Error) => void
}

/** A console that runs. */
export interface RunningConsole {
  /** Where it is, without a slash at the end and without a token: for browsers that are signed in. */
  readonly origin: string
  /** Signs a browser in. */
  readonly address: string
  /** Ends all streams and requests, and the connections to the database. */
  close(): Promise<void>
}

const OWNER: OptionOwner = { code: 'PAWL_INVALID_OPTION', where: 'startConsole' }
const NAMES = [
  'url',
  'readUrl',
  'port',
  'host',
  'token',
  'actor',
  'readOnly',
  'schema',
  'protect',
  'hashSecret',
  'traceUrl',
  'pollMs',
  'onAddress',
  'onError',
] as const satisfies readonly (keyof StartConsoleOptions)[]

const MAX_PORT = 65_535

/**
 * Serves a console for whoever starts it, on 127.0.0.1. Only a browser that knows the token gets in: other users of the machine can
 * reach the port as well.
 *
 * @example
 * const console = await startConsole({ url: process.env.DATABASE_URL, onAddress: (address) => log.info(address) })
 * process.once('SIGTERM', () => void console.close())
 */
export async function startConsole(options: StartConsoleOptions): Promise<RunningConsole> {
  check(options)
  const { url, readUrl, port = DEFAULT_PORT, host = '127.0.0.1', token = null, readOnly = false } = options
  const { onAddress, onError } = options
  let origin = ''
  const signIn = new LocalSignIn({
    user: { actor: options.actor ?? defaultActor(), canChange: !readOnly },
    token,
    anyHost: !isLocalHost(host),
    onUsed: () => onAddress?.(origin + signIn.path),
  })
  const pool = poolOn(url)
  const readPool = readUrl === undefined ? null : poolOn(readUrl)
  const app = Fastify({
    loggerInstance: errorLog(onError),
    routerOptions: { maxParamLength: MAX_TOKEN_LENGTH },
    // Of addresses that cannot be read, before any hook.
    frameworkErrors: (_error, _request, reply: FastifyReply) => {
      void reply
        .headers(SECURITY_HEADERS)
        .code(400)
        .send(tellFailure(invalid('The address cannot be read.')))
    },
  })
  app.setNotFoundHandler((request, reply) => {
    void reply.headers(SECURITY_HEADERS)
    if (request.method === 'GET' && request.headers.accept?.includes('text/html') === true)
      return signIn.askToEnter(reply)
    return reply
      .code(404)
      .send(tellFailure(new ConsoleError('not_found', 'There is no such page, or not with that method.')))
  })
  const { folder } = signIn
  const enter = (address: string, to: string) =>
    app.get(address, { exposeHeadRoute: false }, (request, reply) => {
      void reply.headers(SECURITY_HEADERS)
      return signIn.enter(request, reply, to)
    })
  enter(`${folder}/enter/:token`, '../')
  // For whoever knows the token, and not yet the folder.
  if (token !== null) enter('/enter/:token', `..${folder}/`)
  await app.register(fastifyPawlConsole, {
    prefix: folder,
    pool,
    authenticate: signIn.authenticate,
    ...(readPool !== null && { readPool }),
    ...pick(options, ['schema', 'protect', 'hashSecret', 'traceUrl', 'pollMs']),
  })
  const close = async (): Promise<void> => {
    await app.close()
    await Promise.all([pool.end(), readPool?.end()])
  }
  try {
    await app.listen({ port, host })
  } catch (error) {
    await close()
    throw error
  }
  const { port: bound } = app.server.address() as AddressInfo
  origin = `http://${host.includes(':') ? `[${host}]` : host}:${bound}${folder}`
  onAddress?.(origin + signIn.path)
  return {
    origin,
    get address() {
      return origin + signIn.path
    },
    close,
  }
}

function check(options: StartConsoleOptions): void {
  checkKnownOptions(OWNER, options, NAMES)
  const { url, readUrl, port, host, token } = options
  checkUrl('url', url)
  if (readUrl !== undefined) checkUrl('readUrl', readUrl)
  checkWholeNumber(OWNER, 'port', port, 0, MAX_PORT)
  if (token !== undefined && (typeof token !== 'string' || !TOKEN.test(token)))
    throw new PawlError(
      OWNER.code,
      `${OWNER.where}: token has to have ${MIN_TOKEN_LENGTH} to ${MAX_TOKEN_LENGTH} letters, digits and - . _ ~, so that nobody guesses it.`,
    )
  if (host !== undefined && !isLocalHost(host) && token === undefined)
    throw new PawlError(
      OWNER.code,
      `${OWNER.where}: host is '${host}', which others can reach. Set token as well, and put TLS in front of it; or leave host out.`,
    )
}

/** What stands in an address as it is. */
const TOKEN = new RegExp(`^[\\w.~-]{${MIN_TOKEN_LENGTH},${MAX_TOKEN_LENGTH}}$`)

function checkUrl(option: string, url: unknown): void {
  const isUrl = typeof url === 'string' && /^postgres(?:ql)?:\/\//.test(url) && URL.canParse(url)
  // Without the text itself, which may contain a password.
  if (!isUrl)
    throw invalidOption(OWNER, option, typeof url, 'an address such as postgresql://user@host:5432/name')
}

function isLocalHost(host: string): boolean {
  return host === 'localhost' || isLoopback(host)
}

function poolOn(url: string): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    application_name: 'pawl-console',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    max: WRITE_CONNECTIONS,
    allowExitOnIdle: true,
  })
  // If a connection breaks while nobody uses it, the next query opens another.
  pool.on('error', () => {})
  return pool
}

/** People change one thing at a time. */
const WRITE_CONNECTIONS = 2

function defaultActor(): string {
  try {
    return `${userInfo().username}@${hostname()}`
  } catch {
    // A container's user need not have a name.
    return `unknown@${hostname()}`
  }
}

function pick<T extends object, Name extends keyof T>(from: T, names: readonly Name[]): Pick<T, Name> {
  return Object.fromEntries(
    names.filter((name) => from[name] !== undefined).map((name) => [name, from[name]]),
  ) as Pick<T, Name>
}
