/** The samples of everyone who took part, one per round, in the order in which they were given. */
export type Rounds<Participant, Sample> = ReadonlyMap<Participant, readonly Sample[]>

/**
 * Takes one sample of each participant per round. The order rotates, so that nobody always follows the same one or
 * always comes first; whatever changes over time affects all of them alike.
 */
export async function alternate<Participant, Sample>(
  participants: readonly Participant[],
  rounds: number,
  take: (participant: Participant, round: number) => Promise<Sample>,
): Promise<Rounds<Participant, Sample>> {
  const samples = new Map<Participant, Sample[]>(participants.map((participant) => [participant, []]))
  for (let round = 0; round < rounds; round++) {
    for (const participant of rotated(participants, round)) {
      samples.get(participant)?.push(await take(participant, round))
    }
  }
  return samples
}

function rotated<T>(items: readonly T[], by: number): T[] {
  const at = items.length === 0 ? 0 : by % items.length
  return [...items.slice(at), ...items.slice(0, at)]
}
