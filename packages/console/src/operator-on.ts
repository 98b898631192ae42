import { createOperator, type Operator } from '@pawl/core'
import type { Pool } from 'pg'
import type { ConsoleSettings } from './console-options.js'

/** An operator on one of the console's pools. */
export function operatorOn(pool: Pool, settings: ConsoleSettings): Operator {
  const { schema, protect, hashSecret } = settings
  return createOperator({
    pool,
    schema,
    ...(protect !== null && { protect }),
    ...(hashSecret !== null && { hashSecret }),
  })
}
