"""What runs where: deploy files, resources, threads, memory and queues; decides, and starts nothing."""
