/** Phases in their order, as an engine runs them or as they are recorded. */
export interface OrderedPhases<P extends { readonly name: string }, F> {
  readonly phases: readonly P[]
  readonly finish: F
}

/** How far along the definition a recovery point is: -1 for `started`, and for a point that it does not have. */
export function orderOf(
  { phases }: { readonly phases: readonly { readonly name: string }[] },
  recoveryPoint: string,
): number {
  return recoveryPoint === 'finished'
    ? phases.length
    : phases.findIndex((phase) => phase.name === recoveryPoint)
}

/** The next phase of a key at this recovery point. */
export function phaseAfter<P extends { readonly name: string }, F>(
  definition: OrderedPhases<P, F>,
  recoveryPoint: string,
): P | F {
  return definition.phases[orderOf(definition, recoveryPoint) + 1] ?? definition.finish
}
