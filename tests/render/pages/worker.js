fetch("/from-worker");
