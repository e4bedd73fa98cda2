"""Brokerproof: breaks a real messaging cluster on purpose and proves, message by message, what it kept."""
