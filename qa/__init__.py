"""Visual quality assurance: archived copies rendered and compared with what was captured."""
