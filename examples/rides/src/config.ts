import { readProtectKeys, type ProtectKeys } from './protect-keys.js'
import { type Layout, LAYOUTS } from './migrate.js'

/** The settings that the processes of this service read from their environment. */
export interface Config {
  readonly host: string
  readonly port: number
  readonly databaseUrl: string
  readonly stripeApiKey: string
  /** Null for Stripe itself. */
  readonly stripeApiBase: URL | null
  /** How long the SDK waits for an answer. */
  readonly stripeTimeoutMs: number
  readonly leaseMs: number | null
  readonly poolMax: number
  /** Whether the API's process also finishes unattended requests and deletes expired keys. */
  readonly background: 'on' | 'off'
  /** How many new requests a rider may make in a minute. */
  readonly limitNewPerMinute: number | null
  /** How many requests of a rider may be unfinished at once. */
  readonly limitUnfinished: number | null
  /** How many duplicates of a rider's requests may wait for an answer at once. */
  readonly waitersPerScope: number | null
  /** What becomes of a retry whose key was deleted after the charge. */
  readonly afterExpiry: 'refuse' | 'run'
  /** How long a finished key is kept. */
  readonly retentionMs: number | null
  /** What a finished key no longer has. */
  readonly wipe: 'nothing' | 'input' | 'all'
  /** Null where Pawl's tables hold values as they are. */
  readonly protectKey: ProtectKeys | null
  /** Where answers are cached; null where nothing is. */
  readonly redisUrl: string | null
  /** Where Prometheus gets metrics, on 127.0.0.1; null where nothing is measured. */
  readonly metricsPort: number | null
  /** Where traces are sent, as OpenTelemetry's own SDKs read it; null where nothing is traced. */
  readonly otelExporterOtlpEndpoint: URL | null
  /** How the tables are stored, Pawl's and those of `migrate.ts`. */
  readonly layout: Layout
  /** Where on 127.0.0.1 the console is; 0 for any port that is free, null for no console. */
  readonly consolePort: number | null
  /** Signs browsers in. Null for addresses that work once, which are logged. */
  readonly consoleToken: string | null
}

/** Below the 30 s that the engine gives a call, because the SDK's own error says more than a call that was cut off. */
const STRIPE_TIMEOUT_MS = 20_000

/** What the console takes: long enough that nobody guesses it, and nothing that an address would have to escape. */
const CONSOLE_TOKEN = /^[\w.~-]{22,128}$/

/** What is wrong with the environment, in one line per variable. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

/** Reads it all at once, so that one run reports everything that is wrong. `charges` says whether the process charges anybody. */
export function readConfig(env: NodeJS.ProcessEnv, { charges = true } = {}): Config {
  const problems: string[] = []
  const wholeNumber = (name: string, fallback: number | null, least: number, most: number) => {
    const text = env[name] ?? ''
    if (text === '') return fallback
    const value = Number(text)
    if (Number.isInteger(value) && value >= least && value <= most) return value
    problems.push(`${name} is '${text}'; it takes a whole number from ${least} to ${most}.`)
    return fallback
  }
  const url = (name: string) => {
    const text = env[name] ?? ''
    if (text === '') return null
    if (URL.canParse(text)) return new URL(text)
    problems.push(`${name} is '${text}'; it takes an address such as http://127.0.0.1:12111.`)
    return null
  }
  /** The first one is the default. */
  const oneOf = <Choice extends string>(name: string, choices: readonly [Choice, ...Choice[]]): Choice => {
    const text = env[name] || choices[0]
    const choice = choices.find((each) => each === text)
    if (choice === undefined) problems.push(`${name} is '${text}'; it takes ${choices.join(' or ')}.`)
    return choice ?? choices[0]
  }
  // The value is a secret, and an error is logged.
  const protectKey = () => {
    const text = env['PROTECT_KEY'] ?? ''
    const keys = readProtectKeys(text)
    if (keys === null && text !== '')
      problems.push(
        'PROTECT_KEY is not usable; it takes 64 hexadecimal digits, or a list such as new:…,old:… of them.',
      )
    return keys
  }
  // It may have a password in it, and an error is logged.
  const redisUrl = () => {
    const text = env['REDIS_URL'] ?? ''
    if (text !== '' && !/^rediss?:$/.test(URL.canParse(text) ? new URL(text).protocol : ''))
      problems.push('REDIS_URL is not usable; it takes an address such as redis://127.0.0.1:6379.')
    return text || null
  }
  // A secret as well.
  const consoleToken = () => {
    const text = env['CONSOLE_TOKEN'] ?? ''
    if (text !== '' && !CONSOLE_TOKEN.test(text))
      problems.push('CONSOLE_TOKEN is not usable; it takes 16 to 512 letters, digits and - . _ ~.')
    if (text !== '' && (env['CONSOLE_PORT'] ?? '') === '')
      problems.push('CONSOLE_TOKEN is set, and CONSOLE_PORT is not; it takes a port, or 0 for any.')
    return text || null
  }
  const config = {
    host: env['HOST'] || '127.0.0.1',
    port: wholeNumber('PORT', 3_000, 0, 65_535) ?? 0,
    databaseUrl: env['DATABASE_URL'] ?? '',
    stripeApiBase: url('STRIPE_API_BASE'),
    stripeApiKey: env['STRIPE_API_KEY'] ?? '',
    stripeTimeoutMs: wholeNumber('STRIPE_TIMEOUT_MS', STRIPE_TIMEOUT_MS, 1, 29_000) ?? STRIPE_TIMEOUT_MS,
    leaseMs: wholeNumber('LEASE_MS', null, 100, 3_600_000),
    poolMax: wholeNumber('POOL_MAX', 10, 1, 1_000) ?? 10,
    background: oneOf('BACKGROUND', ['on', 'off']),
    layout: oneOf('LAYOUT', LAYOUTS),
    limitNewPerMinute: wholeNumber('LIMIT_NEW_PER_MINUTE', null, 1, 1_000_000),
    limitUnfinished: wholeNumber('LIMIT_UNFINISHED', null, 1, 1_000_000),
    waitersPerScope: wholeNumber('WAITERS_PER_SCOPE', null, 0, 10_000),
    afterExpiry: oneOf('AFTER_EXPIRY', ['refuse', 'run']),
    retentionMs: wholeNumber('RETENTION_MS', null, 1_000, 365 * 24 * 3_600_000),
    wipe: oneOf('WIPE', ['nothing', 'input', 'all']),
    protectKey: protectKey(),
    redisUrl: redisUrl(),
    metricsPort: wholeNumber('METRICS_PORT', null, 0, 65_535),
    otelExporterOtlpEndpoint: url('OTEL_EXPORTER_OTLP_ENDPOINT'),
    consolePort: wholeNumber('CONSOLE_PORT', null, 0, 65_535),
    consoleToken: consoleToken(),
  }
  if (config.databaseUrl === '')
    problems.push('DATABASE_URL is not set; it takes postgresql://user@host/database.')
  if (charges && config.stripeApiKey === '' && config.stripeApiBase === null)
    problems.push(
      'Neither STRIPE_API_KEY (a test key, to charge at Stripe) nor STRIPE_API_BASE (a stand-in) is set.',
    )
  if (problems.length > 0) throw new ConfigError(problems.join('\n'))
  // A stand-in accepts any key, but the SDK requires one.
  return { ...config, stripeApiKey: config.stripeApiKey || 'sk_test_stand_in' }
}
