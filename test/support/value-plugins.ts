import {
  AndNode,
  BinaryOperationNode,
  ColumnNode,
  type KyselyPlugin,
  OperationNodeTransformer,
  OperatorNode,
  type RootOperationNode,
  ValueNode,
  WhereNode,
} from 'kysely'

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

/** Such as plugins that let a query see the rows of one tenant only: whoever asks just now. */
export class RiderPlugin implements KyselyPlugin {
  readonly #rider: () => string

  constructor(rider: () => string) {
    this.#rider = rider
  }

  transformQuery: KyselyPlugin['transformQuery'] = ({ node }): RootOperationNode => {
    if (node.kind !== 'SelectQueryNode' && node.kind !== 'UpdateQueryNode') return node
    const rider = ValueNode.create(this.#rider())
    const mine = BinaryOperationNode.create(ColumnNode.create('rider'), OperatorNode.create('='), rider)
    const where = node.where === undefined ? mine : AndNode.create(node.where.where, mine)
    return { ...node, where: WhereNode.create(where) }
  }

  transformResult: KyselyPlugin['transformResult'] = async ({ result }) => result
}
