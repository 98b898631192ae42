import { PROTOCOL_VARIANTS } from './protocol-variants.js'
import { SERVER_VARIANTS } from './server-variants.js'
import { findEach } from './find-each.js'

findEach([...PROTOCOL_VARIANTS, ...SERVER_VARIANTS].map(({ name }) => name))
