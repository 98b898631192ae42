import { invalidOption, type OptionOwner } from '@pawl/core/internal'

export function checkBoolean(owner: OptionOwner, option: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'boolean')
    throw invalidOption(owner, option, value, 'true or false')
}
