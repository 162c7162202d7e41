"""The client of the DynamoDB API, over real sockets on loopback."""
