import { rideKit } from './ride-kit.js'

const kit = rideKit()
await kit.exhaustive()
await kit.races({ runs: 60 })
