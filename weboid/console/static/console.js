// The console works without scripts; with this script parts of the pages are updated.
"use strict";

// No polling while the window is hidden, or while the user selects text.
document.addEventListener("htmx:before:request", (event) => {
  const polled = event.target.getAttribute?.("hx-trigger")?.startsWith("every");
  const selection = document.getSelection();
  if (polled && (document.hidden || (selection && !selection.isCollapsed))) event.preventDefault();
});

document.addEventListener("submit", (event) => {
  const question = event.target.dataset?.confirm;
  if (question && !window.confirm(question)) event.preventDefault();
});

document.addEventListener("change", (event) => {
  const all = event.target.closest?.("[data-all]");
  if (!all) return;
  for (const box of document.querySelectorAll(`input[name="${all.dataset.all}"]`)) box.checked = all.checked;
});

// On narrow screens: scroll the navigation to the current page.
const here = document.querySelector(".side [aria-current]");
if (here) here.closest(".side").scrollLeft = here.offsetLeft - innerWidth / 3;
