import { Page } from '../../components/page.js'

/** Before anything has run here. */
export function EmptyMap() {
  return (
    <Page title="Map" width="reading">
      <div class="state state-empty">
        <p class="state-title">Nothing has run here yet.</p>
        <div class="state-text">
          <p>
            Once an engine starts on this database, its pipelines appear here as lanes: every recovery point
            from left to right, with the requests that stand at each, how long they have, and what is stuck.
          </p>
          <ol class="steps">
            <li>
              Declare a pipeline:{' '}
              <code>
                pipeline({'{'} name: 'create-ride', version: 1 {'}'})
              </code>
              , then <code>.local(…)</code>, <code>.foreign(…)</code> and <code>.finish(…)</code>.
            </li>
            <li>
              Start an engine on this database and schema:{' '}
              <code>
                createEngine({'{'} pool, pipelines {'}'})
              </code>
              .
            </li>
            <li>
              Send a request with an <code>Idempotency-Key</code>. This page shows it within seconds, without
              being loaded again.
            </li>
          </ol>
        </div>
      </div>
    </Page>
  )
}
