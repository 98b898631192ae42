export const DEFAULT_SCHEMA = 'pawl'

/** What has to be added to a command that we suggest, so that it refers to the same schema. */
export function schemaOption(schema: string): string {
  return schema === DEFAULT_SCHEMA ? '' : ` --schema ${schema}`
}
