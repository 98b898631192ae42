import { chooseTheme, type Theme, useTheme } from '../theme/theme.js'
import { Icon } from './icon.js'

const CHOICES = [
  { theme: 'auto', name: 'As the system', icon: 'auto' },
  { theme: 'light', name: 'Light', icon: 'sun' },
  { theme: 'dark', name: 'Dark', icon: 'moon' },
] as const satisfies readonly { readonly theme: Theme; readonly name: string; readonly icon: string }[]

/** Light, dark, or as the system is. */
export function ThemeSwitch() {
  const current = useTheme()
  return (
    <div class="theme-switch" role="group" aria-label="Theme">
      {CHOICES.map(({ theme, name, icon }) => (
        <button
          key={theme}
          type="button"
          title={name}
          aria-label={name}
          aria-pressed={current === theme}
          onClick={() => chooseTheme(theme)}
        >
          <Icon name={icon} />
        </button>
      ))}
    </div>
  )
}
