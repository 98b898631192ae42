/**
 * Name your database type once, and adapters know it: `request.tx` of `@pawl/fastify`, for one.
 *
 * @example
 * declare module '@pawl/core' {
 *   interface Register {
 *     database: Database
 *   }
 * }
 */
export interface Register {}

/** The database type that `Register` names, or `any` where it names none. */
export type RegisteredDatabase = Register extends { readonly database: infer DB } ? DB : any
