import type { Alert, AlertSettings } from './alert-table.js'
import { duration, expressionsIn } from './expressions.js'
import type { Naming } from './prometheus-names.js'

/** Prometheus's rules for alerts, as YAML. `override`: other settings than those of the table. */
export function alertRules(
  alerts: readonly Alert[],
  naming: Naming,
  override: (alert: Alert) => Partial<AlertSettings> = () => ({}),
): string {
  const expressions = expressionsIn(naming)
  const rules = alerts.map((alert) => {
    const settings = { ...alert, ...override(alert) }
    const { name, severity, summary, description, expr } = alert
    const lines = expr(expressions, settings).split('\n')
    return [
      `      - alert: ${name}`,
      '        expr: |-',
      ...lines.map((line) => `          ${line}`),
      `        for: ${duration(settings.forS)}`,
      '        labels:',
      `          severity: ${severity}`,
      '        annotations:',
      // A JSON string is a YAML string.
      `          summary: ${JSON.stringify(summary)}`,
      `          description: ${JSON.stringify(description)}`,
    ].join('\n')
  })
  return ['groups:', '  - name: pawl', '    rules:', ...rules, ''].join('\n')
}
