import { render } from 'preact'
import { App } from './app.js'
import './style/main.css'
import { readTheme, showTheme } from './theme/theme.js'

showTheme(readTheme())
const place = document.querySelector('#app')
if (place !== null) render(<App />, place)
