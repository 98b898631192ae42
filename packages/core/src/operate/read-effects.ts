import { EFFECTS_BATCH_SIZE } from '../limits.js'
import { type EffectCursor, findEffects } from '../storage/effects/find-effects.js'
import { microseconds } from './microseconds.js'
import type { EffectView } from './operator.js'
import { viewEffect } from './views.js'
import type { OperatorContext } from './operator-context.js'

/** Sorts before every id there is. */
const FIRST_ID = '00000000-0000-0000-0000-000000000000'

/**
 * The effects of a window, oldest first. Each batch starts after the last row of the one before, so that all cost the
 * same.
 */
export async function* readEffects(
  context: OperatorContext,
  { from, to }: { readonly from: Date; readonly to: Date },
): AsyncGenerator<EffectView> {
  let after: EffectCursor = { createdUs: microseconds(from), id: FIRST_ID }
  for (;;) {
    const batch = await context.with((store) =>
      findEffects(store, after, microseconds(to), EFFECTS_BATCH_SIZE),
    )
    yield* batch.map(viewEffect)
    const last = batch.at(-1)
    if (last === undefined || batch.length < EFFECTS_BATCH_SIZE) return
    after = last
  }
}
