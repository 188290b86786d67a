"""Page-side JavaScript, one function a file; `render.page.script` reads them."""
