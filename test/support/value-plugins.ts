import { type KyselyPlugin, OperationNodeTransformer, type ValueNode } from 'kysely'

/** Changes each value of a query. */
class ValuePlugin implements KyselyPlugin {
  readonly #transformer: OperationNodeTransformer

  constructor(change: (node: ValueNode) => ValueNode) {
    this.#transformer = new (class extends OperationNodeTransformer {
      protected override transformValue(node: ValueNode): ValueNode {
        return change(node)
      }
    })()
  }

  transformQuery: KyselyPlugin['transformQuery'] = ({ node, queryId }) =>
    this.#transformer.transformNode(node, queryId)

  transformResult: KyselyPlugin['transformResult'] = async ({ result }) => result
}

/** Such as plugins that turn dates into texts. */
export class SerializingPlugin extends ValuePlugin {
  constructor() {
    super((node) => (node.value instanceof Date ? { ...node, value: node.value.toISOString() } : node))
  }
}

/** Such as Kysely's SafeNullComparisonPlugin. */
export class SafeNullPlugin extends ValuePlugin {
  constructor() {
    super((node) => (node.value === null ? { ...node, immediate: true } : node))
  }
}

/** Such as Kysely's ImmediateValuePlugin. */
export class ImmediatePlugin extends ValuePlugin {
  constructor() {
    super((node) => ({ ...node, immediate: true }))
  }
}
