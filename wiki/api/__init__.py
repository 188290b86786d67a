"""A wiki's action API."""
