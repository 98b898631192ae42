import type { Erasure, ErasureReport, InterventionView, KeptBecause, KeyReport, KeyView } from '@pawl/core'
import type { ActionResult } from '../api.js'
import type { ConsoleContext } from '../console-context.js'
import { ConsoleError } from '../console-error.js'
import { flagOf, readBody, reasonOf, revisionOf } from '../parse-body.js'
import { deleted, refusal } from '../refusal.js'
import { noSuchKey } from './look.js'

interface EraseAsked {
  readonly keyId: string
  readonly actor: string
  readonly dryRun: boolean
  readonly body: unknown
}

/** Removes what a key has left: its row, the names in its effects, its jobs, and the records of interventions on it. */
export async function eraseKey(console: ConsoleContext, asked: EraseAsked): Promise<ActionResult> {
  try {
    return await erase(console, asked)
  } catch (error) {
    // To a preview, a refusal is an answer like any other.
    if (!asked.dryRun || !(error instanceof ConsoleError) || error.code !== 'refused') throw error
    return { type: 'refused', sentence: error.message, by: error.detail?.by ?? null }
  }
}

async function erase(console: ConsoleContext, asked: EraseAsked): Promise<ActionResult> {
  const { keyId, actor, dryRun } = asked
  const body = readBody(asked.body, ['reason', 'ifRevision', 'recentEffects', 'undeliveredJobs'])
  const reason = dryRun && body['reason'] === undefined ? 'preview' : reasonOf(body)
  // Not the reader, which may be a replica: whoever erased it a moment ago was first.
  const report = (await console.changer.show({ keyId })) ?? noSuchKey(keyId)
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
  const sentence = sentenceOf(erased, dryRun)
  if (erased.erased.keys === 0) throw await notErased(console, report.key, { ...erased, sentence })
  return { type: dryRun ? 'would_be_done' : 'done', sentence, key: null }
}

/** The key had to be kept, or somebody else was first. What belongs to it may be gone nevertheless. */
async function notErased(
  console: ConsoleContext,
  key: KeyView,
  { kept, scopeHash, sentence }: ErasureReport & { readonly sentence: string },
): Promise<ConsoleError> {
  const why = kept.find(({ what }) => what === 'key')?.why ?? 'locked'
  if (why !== 'locked') return refusal(`${WHY_KEPT[why]} ${sentence}`, key, null)
  const now = await console.changer.show({ keyId: key.keyId })
  return now === null
    ? deleted(await whoErased(console, scopeHash))
    : refusal(`${WHY_KEPT.locked} ${sentence}`, now.key, lastOf(now))
}

const WHY_KEPT: Readonly<Record<KeptBecause, string>> = {
  running: 'The key is running, and only finished ones are erased.',
  stuck: 'The key is stuck, and only finished ones are erased: decide about it first.',
  recent_effect:
    'The key has a recent effect, and without the key a retry would have it again. Say that it may be erased all the same, or wait.',
  undelivered: 'The key has jobs that are still to be delivered. Say that they may be erased, or wait.',
  referenced: 'A row of the application refers to the key, or something of the application keeps it.',
  locked: 'Somebody else is working on the key.',
}

/** How many erasures are looked through for the one that came first: it was made a moment ago. */
const ERASURES_SEEN = 50

/** Records of erasures name a scope by its hash. Null where none of the latest is about it: the key may have expired just now. */
async function whoErased(console: ConsoleContext, scopeHash: string): Promise<InterventionView | null> {
  const { interventions } = await console.changer.interventions({ action: 'erase', limit: ERASURES_SEEN })
  return interventions.find(({ detail }) => hasErased(detail as unknown as ErasureNote, scopeHash)) ?? null
}

/** What an erasure notes of itself: before it begins without the counts, and again with them. */
interface ErasureNote {
  readonly given?: { readonly scopeHash?: string }
  readonly counts?: { readonly keys?: number } | null
}

function hasErased({ given, counts }: ErasureNote, scopeHash: string): boolean {
  return given?.scopeHash === scopeHash && (counts?.keys ?? 0) > 0
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
