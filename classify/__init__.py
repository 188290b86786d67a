"""Page classification by evidence: challenges, parked domains, soft 404s, walls."""
