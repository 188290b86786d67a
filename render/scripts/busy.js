// Returns a selector of loading indicators: spinners, skeletons, progress bars.
() =>
  '[aria-busy="true"], [role="progressbar"], ' +
  '[class*="spinner" i], [class*="skeleton" i], [class*="loading" i], [class*="loader" i]'
