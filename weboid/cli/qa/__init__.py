"""Commands of `weboid qa`: checks of archived copies and what follows from them."""
