import type { OrderedPhases } from '../pipeline/phase-order.js'
import type { RecordedPhase, RecordedPipeline } from '../pipeline/recorded-pipeline.js'
import type { ForeignFacts, PhaseFacts } from '../run/next-step.js'

/** A recorded phase, with what the next step depends on. */
export type RecordedFacts = PhaseFacts & { readonly recorded: RecordedPhase }
export type RecordedForeignFacts = ForeignFacts & { readonly recorded: RecordedPhase }
type Before = Exclude<RecordedFacts, { readonly kind: 'finish' }>
type Finish = Extract<RecordedFacts, { readonly kind: 'finish' }>

/** A recorded pipeline in the form in which `nextStep` reads it. */
export function recordedFacts({
  name,
  phases,
}: RecordedPipeline): OrderedPhases<Before, Finish> & { readonly name: string } {
  return {
    name,
    phases: phases.flatMap((recorded): readonly Before[] => {
      const { name: phase, kind } = recorded
      switch (kind) {
        case 'finish':
          return []
        case 'local':
          return [{ kind, name: phase, recorded }]
        case 'foreign':
          return [foreignFacts(recorded)]
      }
    }),
    finish: { kind: 'finish', name: 'finished', recorded: phases.at(-1) as RecordedPhase },
  }
}

function foreignFacts(recorded: RecordedPhase): RecordedForeignFacts {
  const { name, guarantee, windowMs, quietForMs, canReconcile, goesOnWhenUnknown } = recorded
  return {
    kind: 'foreign',
    name,
    recorded,
    guarantee: guarantee ?? 'at_most_once',
    windowMs: windowMs ?? 0,
    quietForMs: quietForMs ?? 0,
    reconcile: canReconcile || null,
    whenUnknown: goesOnWhenUnknown || null,
  }
}
