import { randomBytes } from 'node:crypto'

/** The schemas of one kit. Their names need no quotes. */
export interface KitSchemas {
  /** `crash_` and 16 hexadecimal digits: part of the name of everything that the kit creates on the server. */
  readonly id: string
  /** For the business tables. */
  readonly business: string
  /** For the framework's tables. */
  readonly pawl: string
  /** For what the triggers write. */
  readonly audit: string
}

/** Finds a kit's id in the name of any of its schemas. A regular expression in PostgreSQL's syntax. */
export const KIT_SCHEMA_PATTERN = '^(crash_[0-9a-f]{16})(?:_pawl|_audit)?$'

const ID_BYTES = 8

export function newKitSchemas(): KitSchemas {
  return kitSchemasOf(`crash_${randomBytes(ID_BYTES).toString('hex')}`)
}

export function kitSchemasOf(id: string): KitSchemas {
  return { id, business: id, pawl: `${id}_pawl`, audit: `${id}_audit` }
}
