import { epochMs, msInterval, NOW } from '../statement.js'
import type { Tables } from '../tables.js'

/** The declaration of a call that is about to be made: an `Intent`, with its deadline on the database's clock. */
export const calling = ({ server }: Tables, phase: string, timeoutMs: string): string =>
  `json_build_object('kind', 'calling', 'phase', ${phase}::text,
                                    'deadlineMs', ${epochMs(`${NOW} + ${msInterval(timeoutMs)}`)},
                                    'timeoutMs', ${timeoutMs}::double precision, 'server', ${server})`
