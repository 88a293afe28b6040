// pytest-html draws its whole table anew for every click, which takes seconds with thousands of
// rows, and knows nothing of problem classes. Here a row opens by itself, a class filters the rows,
// and a link to an iteration opens its row.
(() => {
  // pytest-html takes `unescape` of its own address, which breaks on a folder's Chinese name.
  window.unescape = (text) => text

  const opened = new Map() // by pytest-html's number of a row: whether a click opened it
  let shown = null // the links of the chosen class, null without one

  const bodies = () => document.querySelectorAll('#results-table > tbody')
  const number = (body) => body.querySelector('.collapsible')?.dataset.id

  const open = (body, wanted) => {
    body.querySelector('.extras-row')?.classList.toggle('hidden', !wanted)
    body.querySelector('.col-result')?.classList.toggle('collapsed', !wanted)
  }

  const apply = () => {
    for (const body of bodies()) {
      body.hidden = shown !== null && !shown.has('#' + body.id)
      const wanted = opened.get(number(body))
      if (wanted !== undefined) open(body, wanted)
    }
  }

  const choose = (button) => {
    for (const other of document.querySelectorAll('[data-class]')) {
      other.setAttribute('aria-pressed', other === button)
    }
    const links = button?.closest('tr').querySelectorAll('a') ?? []
    shown = button ? new Set([...links].map((a) => a.getAttribute('href'))) : null
    const told = document.getElementById('lmsv-filter')
    if (told) {
      told.textContent = button
        ? `The table shows only: ${button.textContent}. Click again for all rows.`
        : 'A class filters the table, a number jumps to its row.'
    }
    apply()
  }

  const jump = () => {
    const body = document.getElementById(location.hash.slice(1))?.closest('#results-table > tbody')
    if (!body) return
    if (body.hidden) choose(null)
    opened.set(number(body), true)
    open(body, true)
    body.scrollIntoView()
  }

  document.addEventListener('click', (event) => {
    const button = event.target.closest('[data-class]')
    if (button) return choose(button.getAttribute('aria-pressed') === 'true' ? null : button)
    if (event.target.closest('#show_all_details, #hide_all_details')) return opened.clear()
    const anchor = event.target.closest('a')
    if (anchor && anchor.getAttribute('href') === location.hash) jump()
    const cell = event.target.closest('#results-table .collapsible td:not(.col-links)')
    if (!cell) return
    event.stopPropagation()
    if (anchor || String(window.getSelection())) return
    const body = cell.closest('tbody')
    const wanted = body.querySelector('.extras-row').classList.contains('hidden')
    opened.set(number(body), wanted)
    open(body, wanted)
  }, true)

  window.addEventListener('hashchange', jump)
  window.addEventListener('load', () => {
    // pytest-html replaces the table wherever it draws it anew.
    new MutationObserver(apply).observe(document.body, { childList: true })
    jump()
  })
})()
