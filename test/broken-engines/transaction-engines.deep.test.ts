import { DRIVER_VARIANTS } from './driver-variants.js'
import { LEG_VARIANTS } from './leg-variants.js'
import { TRANSACTION_VARIANTS } from './transaction-variants.js'
import { findEach } from './find-each.js'

findEach([...TRANSACTION_VARIANTS, ...DRIVER_VARIANTS, ...LEG_VARIANTS].map(({ name }) => name))
