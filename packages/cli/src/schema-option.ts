export const DEFAULT_SCHEMA = 'pawl'

/** What has to be added to a command that is told to somebody, so that it means the same schema. */
export function schemaOption(schema: string): string {
  return schema === DEFAULT_SCHEMA ? '' : ` --schema ${schema}`
}
