"""Access control: levels, take-downs, malware holds and threat lists."""
