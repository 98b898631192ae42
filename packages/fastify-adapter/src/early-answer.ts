import { PawlError } from '@pawl/core'

/** `idle` until the handler is called; `failed` when the error handler gives the answer. */
export type Progress = 'idle' | 'handling' | 'running' | 'answered' | 'failed'

/** Why a handler may not answer now; null where it may. */
export function earlyAnswer(progress: Progress, route: string, isAtomic: boolean): PawlError | null {
  switch (progress) {
    case 'idle':
    case 'answered':
    case 'failed':
      return null
    case 'handling':
      return new PawlError(
        'PAWL_PIPELINE_NOT_RUN',
        `The handler of ${route} answered without running its pipeline, so nothing protects it against a retry. ` +
          'Return request.pawl.run(…), throw an error, or remove the idempotency option from the route.',
      )
    case 'running':
      return isAtomic
        ? new PawlError(
            'PAWL_REPLY_IN_ATOMIC',
            `The atomic handler of ${route} answered before its transaction had ended. Return what to answer.`,
          )
        : new PawlError(
            'PAWL_PIPELINE_NOT_RUN',
            `The handler of ${route} answered while its pipeline was running. Return request.pawl.run(…).`,
          )
  }
}
