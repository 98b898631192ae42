import { isUuid } from '../is-uuid.js'
import {
  checkDate,
  checkFlag,
  checkKnownOptions,
  checkOneOf,
  checkText,
  checkWholeNumber,
  invalidOption,
  type OptionOwner,
} from '../check-option.js'
import { PawlError } from '../errors.js'
import { checkRequest } from '../request/check-request.js'
import {
  DEFAULT_MAX_RESPONSE_BYTES,
  DEFAULT_MAX_RESPONSE_HEADER_BYTES,
  DEFAULT_EFFECT_RETENTION_MS,
  MAX_INT32,
  MAX_DURATION_MS,
  MAX_LIST_LIMIT,
  MAX_NAME_LENGTH,
  MAX_REASON_LENGTH,
} from '../limits.js'
import { headerBytes, isTransientStatus, respond, type StoredResponse } from '../pipeline/directive.js'
import { encodeJson } from '../pipeline/json-value.js'
import { type Wipe, WIPES } from '../pipeline/settings.js'
import type { StuckReason } from '../pipeline/outcome.js'
import type { KeyReference, SteerOptions } from '../engine/intervention.js'
import type { CallVerdict, DeadJobs, ForgetOptions, KeyFilter, OperatorResponse } from './operator.js'

const owner = (where: string): OptionOwner => ({ code: 'PAWL_INVALID_OPTION', where })

export function checkKeyReference(where: string, of: KeyReference): void {
  checkKnownOptions(owner(where), of, ['scope', 'key', 'keyId'])
  if (!('keyId' in of)) {
    checkRequest(where, of.scope, of.key)
    return
  }
  // Two names may refer to two keys, and only one of them would be looked at.
  if ('scope' in of || 'key' in of) {
    throw new PawlError('PAWL_INVALID_OPTION', `${where}: it takes either scope and key, or keyId.`)
  }
  if (!isUuid(of.keyId)) throw invalidOption(owner(where), 'keyId', of.keyId, 'the id of a key')
}

export function checkPipelineName(where: string, pipeline: string): void {
  checkText(owner(where), 'pipeline', pipeline, MAX_NAME_LENGTH)
}

export function checkVersion(where: string, pipeline: string, version: number): void {
  checkPipelineName(where, pipeline)
  if (version === undefined)
    throw invalidOption(owner(where), 'version', version, 'a whole number of 1 or more')
  checkWholeNumber(owner(where), 'version', version, 1, MAX_INT32)
}

const STATUSES = ['unfinished', 'running', 'unattended', 'stuck', 'finished'] as const
const STUCK_REASONS: Readonly<Record<StuckReason, true>> = {
  attempts_exhausted: true,
  too_old: true,
  unknown_outcome: true,
  window_passed: true,
  transaction_ended: true,
}
const FILTER_NAMES = [
  'status',
  'pipeline',
  'version',
  'recoveryPoint',
  'scope',
  'stuckReason',
  'olderThanMs',
  'limit',
] as const satisfies readonly (keyof KeyFilter)[]

export function checkFilter(where: string, filter: KeyFilter): void {
  checkKnownOptions(owner(where), filter, FILTER_NAMES)
  checkOneOf(owner(where), 'status', filter.status, STATUSES)
  checkOneOf(owner(where), 'stuckReason', filter.stuckReason, Object.keys(STUCK_REASONS))
  for (const name of ['pipeline', 'recoveryPoint', 'scope'] as const) {
    if (filter[name] !== undefined) checkText(owner(where), name, filter[name], MAX_REASON_LENGTH)
  }
  checkWholeNumber(owner(where), 'version', filter.version, 1, MAX_INT32)
  checkWholeNumber(owner(where), 'olderThanMs', filter.olderThanMs, 0)
  checkWholeNumber(owner(where), 'limit', filter.limit, 1, MAX_LIST_LIMIT)
}

export function checkDeadJobsOptions(options: { readonly name?: string; readonly limit?: number }): void {
  const where = 'deadJobs'
  checkKnownOptions(owner(where), options, ['name', 'limit'])
  if (options.name !== undefined) checkText(owner(where), 'name', options.name, MAX_REASON_LENGTH)
  checkWholeNumber(owner(where), 'limit', options.limit, 1, MAX_LIST_LIMIT)
}

export function checkDeadJobs(jobs: DeadJobs): void {
  const where = 'requeue'
  checkKnownOptions(owner(where), jobs, ['jobIds', 'name', 'all'])
  // Picking one of several could deliver all jobs where one name was meant.
  if (Object.keys(jobs).length !== 1) {
    throw new PawlError(
      'PAWL_INVALID_OPTION',
      `${where}: it takes exactly one of jobIds, name and all: true.`,
    )
  }
  if ('all' in jobs) {
    if ((jobs.all as unknown) !== true) throw invalidOption(owner(where), 'all', jobs.all, 'true')
  } else if ('name' in jobs) {
    checkText(owner(where), 'name', jobs.name, MAX_REASON_LENGTH)
  } else {
    if (!Array.isArray(jobs.jobIds)) throw invalidOption(owner(where), 'jobIds', jobs.jobIds, 'a list of ids')
    for (const id of jobs.jobIds as readonly unknown[]) {
      if (!isUuid(id)) throw invalidOption(owner(where), 'jobIds', id, 'ids of jobs')
    }
  }
}

export function checkSteerOptions(where: string, options: SteerOptions): void {
  checkKnownOptions(owner(where), options, ['dryRun', 'ifRevision'])
  checkFlag(owner(where), 'dryRun', options.dryRun)
  checkWholeNumber(owner(where), 'ifRevision', options.ifRevision, 0)
}

export function checkForgetOptions(where: string, options: ForgetOptions): void {
  checkKnownOptions(owner(where), options, ['dryRun', 'ifRevision', 'effectsUndone'])
  checkFlag(owner(where), 'dryRun', options.dryRun)
  checkWholeNumber(owner(where), 'ifRevision', options.ifRevision, 0)
  checkFlag(owner(where), 'effectsUndone', options.effectsUndone)
}

export function checkVerdict(where: string, verdict: CallVerdict): void {
  const of = owner(`${where}: verdict`)
  checkKnownOptions(of, verdict, ['type', 'result', 'phase'])
  checkOneOf(of, 'type', (verdict as Partial<CallVerdict>).type ?? null, ['not_executed', 'executed'])
  if (verdict.phase !== undefined) checkText(of, 'phase', verdict.phase, MAX_NAME_LENGTH)
  if (verdict.type === 'not_executed') {
    if ('result' in verdict)
      throw invalidOption(of, 'result', verdict.result, `no value with type 'not_executed'`)
    return
  }
  const json = encodeJson(verdict.result, {
    what: 'the result of the verdict',
    maxBytes: Number.MAX_SAFE_INTEGER,
  })
  checkSize(of, 'result', Buffer.byteLength(json))
}

/** What an operator answers, as it is stored. */
export interface CheckedResponse {
  readonly response: StoredResponse
  readonly retentionMs: number
  readonly wipe: Wipe
}

export function checkResponse(where: string, given: OperatorResponse): CheckedResponse {
  const of = owner(`${where}: response`)
  checkKnownOptions(of, given, ['status', 'headers', 'body', 'retentionMs', 'wipe'])
  checkWholeNumber(of, 'retentionMs', given.retentionMs, 1, MAX_DURATION_MS)
  checkOneOf(of, 'wipe', given.wipe, WIPES)
  const { headers = {}, wipe = 'nothing' } = given
  if (typeof headers !== 'object' || headers === null)
    throw invalidOption(of, 'headers', headers, 'an object')
  const { response } = respond(given.status, given.body, { headers })
  if (isTransientStatus(response.status)) {
    throw new PawlError(
      'PAWL_INVALID_RESPONSE',
      `${where}: status is ${response.status}, which asks the client to come back. It takes 200 to 499, except 408, 425 and 429.`,
    )
  }
  checkSize(of, 'body', response.body.length)
  checkSize(of, 'headers', headerBytes(response), DEFAULT_MAX_RESPONSE_HEADER_BYTES)
  // No effect is on record of a call that nobody knows about: only the key itself keeps a retry from making it again.
  return { response, retentionMs: given.retentionMs ?? DEFAULT_EFFECT_RETENTION_MS, wipe }
}

function checkSize(of: OptionOwner, option: string, bytes: number, cap = DEFAULT_MAX_RESPONSE_BYTES): void {
  if (bytes <= cap) return
  throw new PawlError('PAWL_TOO_LARGE', `${of.where}: ${option} is ${bytes} bytes; the cap is ${cap}.`)
}

export function checkWindow(where: string, { from, to }: { readonly from: Date; readonly to: Date }): void {
  checkDate(owner(where), 'from', from)
  checkDate(owner(where), 'to', to)
  if (from > to)
    throw invalidOption(owner(where), 'to', to.toISOString(), `a moment not before ${from.toISOString()}`)
}
