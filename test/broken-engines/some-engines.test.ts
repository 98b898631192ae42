import { findEach } from './find-each.js'

// Two engines, chosen because the kit finds them in a few cases. `npm run test:deep` searches all engines, in files of their own,
// which takes minutes. `npm test` has other tests for the mechanism that each engine lacks.
findEach(['rollback-overtakes', 'unknown-commit-as-failure'])
