import { GUARD_VARIANTS } from './guard-variants.js'
import { findEach } from './find-each.js'

// Each has the guard rail in which something is wrong.
findEach([...GUARD_VARIANTS].map(({ name }) => name))
