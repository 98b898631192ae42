import type { Erasure, ErasureReport, InterventionView, KeyReport } from '@pawl/core'
import type { ActionResult } from '../api.js'
import type { ConsoleContext } from '../console-context.js'
import { flagOf, readBody, reasonOf, revisionOf } from '../parse-body.js'
import { refusal } from '../refusal.js'
import { noSuchKey } from './look.js'

interface EraseAsked {
  readonly keyId: string
  readonly actor: string
  readonly dryRun: boolean
  readonly body: unknown
}

/** Removes what a key has left: its row, the names in its effects, its jobs, and the records of interventions on it. */
export async function eraseKey(console: ConsoleContext, asked: EraseAsked): Promise<ActionResult> {
  const { keyId, actor, dryRun } = asked
  const body = readBody(asked.body, ['reason', 'ifRevision', 'recentEffects', 'undeliveredJobs'])
  const reason = dryRun && body['reason'] === undefined ? 'preview' : reasonOf(body)
  const report = (await console.reader.show({ keyId })) ?? noSuchKey(keyId)
  const { ifRevision } = revisionOf(body)
  // An erasure goes by scope and key, and what it may not remove it keeps: here, only the person's view can be out of date.
  if (ifRevision !== undefined && report.key.revision !== ifRevision)
    throw refusal('The key has changed since it was shown. Look at it again.', report.key, lastOf(report))
  const { scope, key } = report.key
  const erasure: Erasure = {
    scope,
    key,
    actor,
    reason,
    recentEffects: flagOf(body, 'recentEffects'),
    undeliveredJobs: flagOf(body, 'undeliveredJobs'),
  }
  // A preview writes nothing, and shows by its connections that it does not.
  const erased = dryRun
    ? await console.reader.erase({ ...erasure, dryRun })
    : await console.changer.erase(erasure)
  return { type: dryRun ? 'would_be_done' : 'done', sentence: sentenceOf(erased, dryRun), key: null }
}

/** They come oldest first. */
function lastOf({ interventions }: KeyReport): InterventionView | null {
  return interventions.at(-1) ?? null
}

function sentenceOf({ erased, keptCount, kept }: ErasureReport, isPreview: boolean): string {
  const { keys, effects, jobs, interventions } = erased
  const counts = [
    counted(keys, 'key'),
    counted(effects, 'effect'),
    counted(jobs, 'job'),
    counted(interventions, 'intervention'),
  ]
  const [first = ''] = kept.map(({ what, why }) => `${what} (${why.replaceAll('_', ' ')})`)
  const rest =
    keptCount === 0
      ? ''
      : ` ${counted(keptCount, 'thing')} ${isPreview ? 'would be' : 'had to be'} kept, such as a ${first}.`
  return `${isPreview ? 'This would erase' : 'Erased'}: ${counts.join(', ')}.${rest}`
}

function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}
