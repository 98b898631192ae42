import { TestDatabase } from '../support/test-database.js'
import { testPlansOn } from './test-plans-on.js'

const PARTITIONS = 4

await testPlansOn(await TestDatabase.createPartitioned(PARTITIONS))
