"""One page capture: visit through browser and proxy, gap check, manifest."""
