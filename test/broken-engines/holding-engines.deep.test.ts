import { HOLDING_VARIANTS } from './holding-variants.js'
import { findEach } from './find-each.js'

findEach([...HOLDING_VARIANTS].map(({ name }) => name))
