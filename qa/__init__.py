"""Visual quality assurance: archived copies rendered and compared with their captures."""
