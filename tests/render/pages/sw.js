fetch("/from-service-worker");
