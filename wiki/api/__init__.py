"""Client of the MediaWiki action API."""
