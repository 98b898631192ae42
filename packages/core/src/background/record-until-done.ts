import type { EngineContext } from '../engine/engine-context.js'
import type { Engine } from '../engine/engine.js'
import { RECORD_RETRY_MS } from '../limits.js'

/**
 * Has an engine record its pipelines, again and again until it has: the database may be away when a process starts. Returns a
 * function that stops it.
 */
export function recordUntilDone(engine: Engine<never>, context: EngineContext): () => void {
  let timer: NodeJS.Timeout | undefined
  let isStopped = false
  const record = async (): Promise<void> => {
    await engine.recordPipelines()
    if (isStopped || context.stopping.aborted || context.recorder.isDone) return
    timer = setTimeout(() => void record(), RECORD_RETRY_MS).unref()
  }
  void record()
  return () => {
    isStopped = true
    clearTimeout(timer)
  }
}
