import type { ContenderName } from '../contenders/registry.js'
import type { Section } from '../report/section.js'
import type { Arena } from '../run/arena.js'

export type Mode = 'quick' | 'full'

/** What a scenario works with. */
export interface Stage {
  readonly arena: Arena
  readonly mode: Mode
  /** Those of these contenders that were asked for. */
  readonly among: <Name extends ContenderName>(names: readonly Name[]) => Name[]
  /** Reports the progress. */
  readonly say: (text: string) => void
}

/** One question to the contenders. */
export interface Scenario {
  readonly title: string
  run(stage: Stage): Promise<Section[]>
}
