import { TestDatabase } from '../support/test-database.js'
import { testPlansOn } from './test-plans-on.js'

await testPlansOn(await TestDatabase.createNew())
