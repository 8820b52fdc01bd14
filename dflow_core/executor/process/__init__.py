"""The executor process: instances around their queues, and the way of messages between them."""
