import { Page } from '../../components/page.js'
import { Failure } from '../../components/states.js'
import { useLiveFlow } from '../../live/live-flow.js'
import { EmptyMap } from './empty-map.js'
import { Lane, SkeletonLane } from './lane.js'
import { Summary } from './summary.js'
import { useFinishedSeries } from './finished-series.js'

const TITLE = 'Map'

/** Where requests stand right now: every version of every pipeline, from left to right. */
export function MapPage() {
  const { flow, failure } = useLiveFlow()
  const { total, byLane } = useFinishedSeries()
  if (flow === null) {
    return (
      <Page title={TITLE} width="full">
        {failure === null ? (
          [0, 1, 2].map((index) => <SkeletonLane key={index} />)
        ) : (
          <Failure error={failure} />
        )}
      </Page>
    )
  }
  if (flow.pipelines.length === 0) return <EmptyMap />
  const most = Math.max(
    1,
    ...flow.pipelines.flatMap(({ points }) =>
      points.map(({ held, backingOff, unattended, stuck }) => held + backingOff + unattended + stuck),
    ),
  )
  return (
    <Page title={TITLE} width="full">
      <Summary flow={flow} finished={total} />
      <div class="lanes">
        {flow.pipelines.map((pipeline) => {
          const id = `${pipeline.name}@${pipeline.version}`
          return <Lane key={id} pipeline={pipeline} most={most} finished={byLane.get(id) ?? null} />
        })}
      </div>
    </Page>
  )
}
