// Selector of what says that more is to come: spinners, skeletons, progress.
() =>
  '[aria-busy="true"], [role="progressbar"], ' +
  '[class*="spinner" i], [class*="skeleton" i], [class*="loading" i], [class*="loader" i]'
