import { PawlError, reconcile, type ReconcileOptions, safeError } from '@pawl/core'
import { CliError, usageError } from '../cli-error.js'
import { defineCommand, required } from '../command.js'
import { EXIT } from '../exit-code.js'
import { loadModule } from '../load-module.js'
import { parseMoment } from '../parse/moment.js'
import { isInAgreement, renderReconciliation } from '../render/reconciliation.js'

export const reconcileCommand = defineCommand({
  name: 'reconcile',
  summary: 'compare the provider’s records of a window with the effects recorded here',
  args: [{ name: 'module', count: 'one' }],
  options: {
    from: required(
      'TIME',
      parseMoment,
      'the start of the window, like 2026-03-31 (UTC) or 2026-03-31T12:00:00Z',
    ),
    to: required('TIME', parseMoment, 'the end of the window, which is not part of it'),
  },
  details: [
    'The module’s default export, or its export named records, is your function ({ from, to }) => the provider’s records, each of them { reference, at, providerKey?, detail? }. at has to be a Date: where the provider returns seconds, write at: new Date(charge.created * 1000). The module may also export differs, effects and slackMs, as reconcile of @pawl/core takes them.',
    'References that pawl erase has replaced are found if PAWL_HASH_SECRET is the one that it was run with. Nothing is changed on either side.',
  ],
  exits: {
    [EXIT.ok]: 'both sides agree',
    [EXIT.findings]: 'something is missing here or there, differs, or could not be compared',
  },
  async run({ args, options }, { cwd, env, paint, withDatabase }) {
    const [path = ''] = args
    const { from, to } = options
    if (from >= to) throw usageError('--to has to be after --from.')
    const given = optionsOf(await loadModule(path, cwd), path)
    const hashSecret = env['PAWL_HASH_SECRET']
    const report = await withDatabase(({ operator }) =>
      reconcile(operator, { ...given, from, to, ...(hashSecret !== undefined && { hashSecret }) }).catch(
        (error: unknown) => blameModule(error, path),
      ),
    )
    return {
      exit: isInAgreement(report) ? EXIT.ok : EXIT.findings,
      lines: renderReconciliation(report, paint),
      json: { from, to, ...report },
    }
  },
})

/** The window has been checked, so whatever is still wrong came from the module. */
function blameModule(error: unknown, path: string): never {
  if (!(error instanceof PawlError) || error.code !== 'PAWL_INVALID_OPTION') throw error
  throw new CliError(
    'module',
    `Module '${path}' returned something that cannot be compared: ${error.message}`,
    {
      cause: error,
    },
  )
}

type GivenOptions = Omit<ReconcileOptions, 'from' | 'to'>

const OPTIONAL = ['differs', 'effects', 'slackMs'] as const satisfies readonly (keyof GivenOptions)[]

/** What a function of the module throws is reported as the module's error, even when its provider is away. */
function moduleFailed(error: unknown, path: string, what: string): CliError {
  const { message, name } = safeError(error)
  const reason = message === '' ? name : message
  return new CliError('module', `Module '${path}' failed to ${what}: ${reason}`, {
    cause: error,
  })
}

function blamingRecords(records: GivenOptions['records'], path: string): GivenOptions['records'] {
  return async function* (window) {
    try {
      yield* await records(window)
    } catch (error) {
      throw moduleFailed(error, path, 'list its records')
    }
  }
}

function blamingDiffers(differs: unknown, path: string): unknown {
  if (typeof differs !== 'function') return differs
  return async (...args: unknown[]): Promise<unknown> => {
    try {
      return await (differs as (...given: unknown[]) => unknown)(...args)
    } catch (error) {
      throw moduleFailed(error, path, 'compare')
    }
  }
}

/** Core checks what they are. */
function optionsOf(module: Readonly<Record<string, unknown>>, path: string): GivenOptions {
  const records = module['records'] ?? module['default']
  if (typeof records !== 'function') {
    throw new CliError(
      'module',
      `Module '${path}' has no function as its default export or as its export 'records'.`,
    )
  }
  const more = OPTIONAL.filter((name) => module[name] !== undefined).map((name) => [
    name,
    name === 'differs' ? blamingDiffers(module[name], path) : module[name],
  ])
  return {
    ...(Object.fromEntries(more) as Partial<GivenOptions>),
    records: blamingRecords(records as GivenOptions['records'], path),
  }
}
