/**
 * Has Citus pass what a transaction sets with SET LOCAL on to the servers that take part in it. What a function sets, such as
 * `set_config`, stays where it is.
 */
export const PROPAGATE = "SET LOCAL citus.propagate_set_commands = 'local'"
