import { ANSWER_VARIANTS } from './answer-variants.js'
import { CALL_REPEAT_VARIANTS } from './call-repeat-variants.js'
import { CALL_RESULT_VARIANTS } from './call-result-variants.js'
import { findEach } from './find-each.js'

findEach([...CALL_REPEAT_VARIANTS, ...CALL_RESULT_VARIANTS, ...ANSWER_VARIANTS].map(({ name }) => name))
